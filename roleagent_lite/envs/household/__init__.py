"""The household world: a light engine equal to ALFWorld's text games, its games and its task sets.

game.py       a game as data: what stands where, the goal, the wording; reads compact task rows
pddl.py       a PDDL problem as lists, facts and readable names
goals.py      recognises the six goals
problem.py    reads `game.tw-pddl` files
engine.py     state, the 13 actions, admissible commands, facts, snapshots
text.py       every sentence the engine says, in two dialects
oracle.py     winning walkthroughs
classes.py    the furniture and things of our own scenes
generator.py  solvable games of six task types in three tiers
writer.py     writes a game for the original engine
original.py   the original engine behind the same interface (extra `alfworld`)
env.py        the Environment; task lists of a user's ALFWorld tree
"""
