// The lists of tasks and episodes, made from the block "list".

const SPLITS = ["test", "dev", "train"];
const SPLIT_WORDS = { test: "sealed test", dev: "dev", train: "training" };
// The columns of a row, as episodes.py writes them.
const [ID, TASK, SPLIT, PROMPT, ROUND, ROLLOUT, END, STEPS, SCORE, FORESIGHT, INVALID, MODE, BLOCK, PLACE] = Array(14).keys();

let list = null, episodeTable = null;
const byId = new Map();

const capital = (word) => word[0].toUpperCase() + word.slice(1);
const endOf = (row) => list.ends[row[END]];
const isSolved = (row) => endOf(row)[0] === "solved";
const promptOf = (row) => list.prompts[row[PROMPT]][1];
const linkTo = (id) => `#t=${encodeURIComponent(id)}`;

function endTag(row) {
  const [kind, reason] = endOf(row);
  const kinds = { solved: "good", infrastructure_error: "warned", cut_off: "warned" };
  return el("span", { class: `tag ${kinds[kind] || "bad"}`, title: reason }, kind.replaceAll("_", " "));
}

function options(rows, of, words) {
  const found = new Map();
  for (const row of rows) found.set(String(of(row)), words(row));
  return [...found].sort((a, b) => compare(a[1], b[1]));
}

function episodesTable() {
  const rows = list.rows;
  const choose = (title, of, words) => ({ title, options: options(rows, of, words), keep: (row, v) => String(of(row)) === v });
  const modes = rows.filter((r) => r[MODE] >= 0);
  return pagedTable($("episodes-list"), {
    name: "Episodes", rows, unit: ["episode", "episodes"],
    text: (r) => [r[ID], list.tasks[r[TASK]][1], list.tasks[r[TASK]][3], promptOf(r), ...endOf(r), list.modes[r[MODE]] || ""].join(" "),
    selects: [
      choose("Split", (r) => r[SPLIT], (r) => SPLIT_WORDS[SPLITS[r[SPLIT]]]),
      choose(capital(list.word), (r) => r[PROMPT], promptOf),
      choose("Task type", (r) => list.tasks[r[TASK]][1], (r) => list.tasks[r[TASK]][1]),
      choose("Ended", (r) => endOf(r)[0], (r) => endOf(r)[0].replaceAll("_", " ")),
      ...(modes.length ? [{ title: "Failure mode", options: options(modes, (r) => r[MODE], (r) => list.modes[r[MODE]]), keep: (r, v) => String(r[MODE]) === v }] : []),
    ],
    columns: [
      { title: "episode", value: (r) => r[ID], cell: (r) => el("a", { href: linkTo(r[ID]) }, r[ID]) },
      { title: "type", value: (r) => list.tasks[r[TASK]][1], cell: (r) => list.tasks[r[TASK]][1] },
      { title: "split", value: (r) => r[SPLIT], cell: (r) => SPLIT_WORDS[SPLITS[r[SPLIT]]] },
      { title: list.word, value: promptOf, cell: promptOf },
      { title: "ended", value: (r) => endOf(r).join(" "), cell: endTag },
      { title: "steps", number: true, value: (r) => r[STEPS], cell: (r) => number(r[STEPS]) },
      { title: "not admissible", number: true, value: (r) => r[INVALID], cell: (r) => number(r[INVALID]) },
      { title: "score", number: true, value: (r) => r[SCORE], cell: (r) => r[SCORE].toFixed(2) },
      { title: "foresight", number: true, value: (r) => r[FORESIGHT], cell: (r) => (r[FORESIGHT] === null ? "–" : r[FORESIGHT].toFixed(2)) },
    ],
  });
}

/** Task rows: who solved what, with a link to each episode. */
function tasksTable() {
  const rows = list.tasks.map((task, i) => ({ task, i, episodes: [], solved: 0, scored: 0, prompts: new Map() }));
  for (const row of list.rows) {
    const of = rows[row[TASK]];
    of.episodes.push(row);
    if (endOf(row)[0] === "infrastructure_error") continue;
    of.scored += 1;
    of.solved += isSolved(row) ? 1 : 0;
    const seen = of.prompts.get(row[PROMPT]) || [0, 0];
    of.prompts.set(row[PROMPT], [seen[0] + (isSolved(row) ? 1 : 0), seen[1] + 1]);
  }
  const differs = (r) => new Set([...r.prompts.values()].map(([k, n]) => k / n)).size > 1;
  const each = (r) => [...r.prompts].map(([p, [k, n]]) => `${list.prompts[p][1]} ${k}/${n}`).join(", ");
  const chip = (row) => {
    const [kind, reason] = endOf(row), good = kind === "solved";
    const words = `${promptOf(row)}, round ${row[ROUND]}, rollout ${row[ROLLOUT]}: ${kind.replaceAll("_", " ")}${reason ? `, ${reason}` : ""}`;
    return el("a", { class: `chip ${good ? "good" : "bad"}`, href: linkTo(row[ID]), title: words, "aria-label": words }, good ? "✓" : "✗");
  };
  const chips = (r) => el("span", { class: "chips" }, ...r.episodes.slice(0, 12).map(chip),
    r.episodes.length > 12 ? el("a", { class: "chip", href: `#episodes&q=${encodeURIComponent(r.task[0])}` }, `all ${number(r.episodes.length)}`) : "");
  const choose = (title, at, words) => ({ title, options: options(rows, (r) => r.task[at], (r) => words(r.task[at])), keep: (r, v) => String(r.task[at]) === v });
  const first = rows.slice().sort((a, b) => (b.episodes.length > 0) - (a.episodes.length > 0) || a.task[2] - b.task[2] || a.i - b.i);
  return pagedTable($("tasks-list"), {
    name: "Tasks", rows: first, unit: ["task", "tasks"], text: (r) => `${r.task[0]} ${r.task[1]} ${r.task[3]} ${each(r)}`,
    selects: [
      choose("Split", 2, (v) => SPLIT_WORDS[SPLITS[v]]),
      choose("Task type", 1, (v) => v),
      {
        title: "Show", options: [["differ", `${list.word}s differ`], ["never", "never solved"], ["always", "always solved"], ["not", "not played"]],
        keep: (r, v) => ({ differ: differs(r), never: r.scored > 0 && !r.solved, always: r.scored > 0 && r.solved === r.scored, not: !r.episodes.length })[v],
      },
    ],
    columns: [
      { title: "task", wide: true, value: (r) => r.task[0], cell: (r) => el("span", {}, r.task[3] || r.task[0], r.task[3] ? el("div", { class: "dim" }, r.task[0]) : "") },
      { title: "type", value: (r) => r.task[1], cell: (r) => r.task[1] },
      { title: "split", value: (r) => r.task[2], cell: (r) => SPLIT_WORDS[SPLITS[r.task[2]]] },
      { title: "solved", number: true, value: (r) => (r.scored ? r.solved / r.scored : null), cell: (r) => (r.scored ? `${r.solved} of ${r.scored}` : "–") },
      { title: `by ${list.word}`, wide: true, value: each, cell: each },
      { title: "episodes", wide: true, value: (r) => r.episodes.length, cell: chips },
    ],
  });
}

async function startLists() {
  const place = $("episodes-list");
  if (typeof DecompressionStream === "undefined") {
    place.append(el("p", { class: "warn" }, "This browser is too old to unpack the episodes (it lacks DecompressionStream). In a terminal: roleagent-lite show RUN list"));
    return;
  }
  list = await unpack("list");
  for (const row of list.rows) byId.set(row[ID], row);
  $("episodes-words").textContent = list.words;
  episodeTable = episodesTable();
  tasksTable();
}
