// One step of an episode: what was seen, thought, done and foretold, beside what came. All of it is text.

const MOST_WORDS = 400; // of a text that is compared word by word; the work grows with the square

/** Words and the white space between them. */
const pieces = (text) => text.match(/\s+|[^\s]+/g) || [];

/** Which words of two lists stand in a longest common subsequence: two lists of booleans. */
function common(a, b) {
  const width = b.length + 1, best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] = a[i] === b[j]
        ? best[(i + 1) * width + j + 1] + 1
        : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
  const inA = new Array(a.length).fill(false), inB = new Array(b.length).fill(false);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { inA[i++] = true; inB[j++] = true; }
    else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return [inA, inB];
}

/** `text` with the words that are not `same` inside `name` (del or ins) elements. */
function marked(text, same, name) {
  const out = [];
  let word = 0, open = null, space = "";
  for (const piece of pieces(text)) {
    if (/^\s/.test(piece)) { space = piece; continue; }
    if (same[word++]) { open = null; out.push(space, piece); }
    else if (open) open.push(space, piece);
    else { open = [piece]; out.push(space, open); }
    space = "";
  }
  out.push(space);
  return out.map((one) => (Array.isArray(one) ? el(name, {}, one.join("")) : one));
}

/** Two texts with their differences marked: what was foretold and did not come, what came unforetold. */
function difference(foretold, came) {
  const a = pieces(foretold).filter((p) => /\S/.test(p)), b = pieces(came).filter((p) => /\S/.test(p));
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return [[foretold], [came]];
  const [inA, inB] = common(a, b);
  return [marked(foretold, inA, "del"), marked(came, inB, "ins")];
}

const said = (...children) => el("div", { class: "said", dir: "auto" }, ...children);
const field = (name, kind, ...children) => el("div", { class: `field ${kind}` }, el("div", { class: "k" }, name), el("div", {}, ...children));

/** A bar from 0 to 1. */
function share(value) {
  return svg("svg", { class: "bar01", viewBox: "0 0 120 10", "aria-hidden": "true" },
    svg("rect", { class: "rest", x: 0, y: 1, width: 120, height: 8, rx: 2 }),
    svg("rect", { class: "part", x: 0, y: 1, width: (120 * Math.min(Math.max(value, 0), 1)).toFixed(1), height: 8, rx: 2 }));
}

/** A bar to the left or right of zero; `most` is the largest size in this episode. */
function creditBar(value, most) {
  const long = most > 0 ? (Math.abs(value) / most) * 58 : 0;
  return svg("svg", { class: "credit", viewBox: "0 0 120 10", "aria-hidden": "true" },
    svg("rect", { class: "rest", x: 0, y: 1, width: 120, height: 8, rx: 2 }),
    svg("rect", { class: value < 0 ? "less" : "more", x: (value < 0 ? 60 - long : 60).toFixed(1), y: 1, width: long.toFixed(1), height: 8 }),
    svg("path", { class: "zero", d: "M60 0v10" }));
}

function predictions(episode, t) {
  const step = episode.steps[t], out = [];
  (step.p || []).forEach((foretold, i) => {
    const later = episode.steps[t + i], part = step.g && step.g[i + 1], score = step.q ? step.q[i] : null;
    const came = part !== undefined && part !== null ? part : later ? later.z : null;
    const title = i === 0 ? "Foretold for this step" : `Foretold ${i + 1} steps on`;
    const value = score === null || score === undefined
      ? el("span", {}, "not scored")
      : el("span", {}, `alignment ${score.toFixed(2)} `, share(score));
    const [left, right] = foretold !== null && came !== null ? difference(foretold, came) : [[foretold ?? "(no prediction)"], [came ?? "(the episode had ended)"]];
    out.push(el("div", { class: "pred" },
      el("div", { class: "k" }, el("span", {}, title), value),
      el("div", { class: "pair" },
        el("div", {}, el("h4", {}, "foretold"), said(...left)),
        el("div", {}, el("h4", {}, part ? "came (what was new in a long page)" : "came"), said(...right)))));
  });
  return out;
}

function credits(step, most) {
  if (!step.c) return null;
  const [reward, predictive, task, advantage, state] = step.c;
  return field("Credit", "",
    el("div", {}, creditBar(advantage, most), ` advantage ${signed(advantage, 3)}, reward ${reward.toFixed(3)} `,
      el("span", { class: "dim" }, `(state part ${signed(state, 3)}; task return ${task.toFixed(3)}, prediction ${predictive.toFixed(3)})`)));
}

function stepCard(episode, t, most, total) {
  const step = episode.steps[t], body = [];
  body.push(step.o !== undefined
    ? field("Sees", "", said(step.o))
    : field("Sees", "dim", `what step ${t} brought`));
  if (step.m) {
    const chosen = step.m.includes(step.a), actions = el("ul", { class: "adm" });
    // Made when it is opened: a long episode has many thousand of these.
    const fill = () => {
      if (!actions.childElementCount) actions.append(...step.m.map((a) => el("li", { class: a === step.a && "chosen" }, a, a === step.a ? " (taken)" : "")));
    };
    body.push(field("May do", "", el("details", { on: { toggle: fill } },
      el("summary", {}, `${plural(step.m.length + (step.n || 0), "admissible action", "admissible actions")}${chosen || step.n ? "" : ", the one taken is not among them"}`),
      actions, step.n ? el("p", { class: "dim" }, `and ${number(step.n)} more`) : "")));
  }
  if (step.y !== undefined) body.push(field("Thinks", "thought", said(step.y)));
  body.push(field("Does", "does", said(step.a)));
  if (step.w !== undefined) body.push(field("", "", el("details", {}, el("summary", { class: "dim" }, "The reply as written"), said(step.w))));
  const foretold = predictions(episode, t);
  if (foretold.length) body.push(field("Foresees", "", ...foretold));
  body.push(field("What came", "", said(step.z)));
  body.push(credits(step, most));
  return el("article", { class: "step", tabindex: -1, id: `step-${t + 1}`, "aria-labelledby": `step-${t + 1}-title` },
    el("div", { class: "shead" },
      el("h3", { id: `step-${t + 1}-title` }, `Step ${t + 1} of ${total}`),
      el("span", {}, step.x ? el("span", { class: "tag bad" }, "not admissible") : el("span", { class: "tag" }, "valid"),
        step.r ? el("span", { class: "tag good" }, `reward ${number(step.r, 2)}`) : "")),
    ...body);
}
