// The reader of one episode: a dialog with its steps, opened by #t=EPISODE.

const viewer = $("viewer");
const blocks = new Map(); // number -> data; the last few that were opened
let open = null; // the row that is shown
let atStep = 0;

async function episodeOf(row) {
  const name = row[BLOCK];
  if (!blocks.has(name)) {
    if (blocks.size >= 4) blocks.delete(blocks.keys().next().value);
    blocks.set(name, await unpack(`c${name}`));
  }
  return blocks.get(name)[row[PLACE]];
}

const fact = (name, value) => el("span", {}, `${name} `, el("b", {}, value));

function viewerHead(row, episode) {
  const task = list.tasks[row[TASK]], order = episodeTable.order(), at = order.indexOf(row);
  const step = (by, words, key) => el("button", { type: "button", disabled: !order[at + by] || at < 0, title: `${words} (${key})`, on: { click: () => go(by) } }, words);
  const reason = endOf(row)[1];
  return el("div", { class: "vhead" },
    el("div", { class: "vrow" },
      el("h2", { id: "viewer-title" }, row[ID], " ", endTag(row)),
      el("span", { class: "buttons" }, step(-1, "Previous", "p"), step(1, "Next", "n"),
        el("button", { type: "button", title: "Close (Esc)", class: "close", on: { click: () => viewer.close() } }, "Close"))),
    el("p", { class: "goal", dir: "auto" }, task[3]),
    el("p", { class: "facts" },
      fact("type", task[1]), fact("split", SPLIT_WORDS[SPLITS[row[SPLIT]]]), fact(list.word, promptOf(row)),
      fact("round", row[ROUND]), fact("rollout", row[ROLLOUT]), fact("score", row[SCORE].toFixed(2)),
      reason ? fact("ended", reason) : "",
      episode ? fact("steps", `${episode.steps.length}${episode.max ? ` of at most ${episode.max}` : ""}`) : "",
      episode ? fact("model", episode.model) : "",
      episode && episode.arm !== "none" ? fact("experience", episode.arm) : "",
      episode && episode.advantage !== undefined ? fact("episode advantage", signed(episode.advantage, 3)) : "",
      row[FORESIGHT] !== null ? fact("foresight", row[FORESIGHT].toFixed(2)) : ""),
    el("p", { class: "keys" }, "Keys: ", el("kbd", {}, "j"), " ", el("kbd", {}, "k"), " step, ", el("kbd", {}, "n"), " ", el("kbd", {}, "p"), " or ", el("kbd", {}, "→"), " ", el("kbd", {}, "←"), " episode, ", el("kbd", {}, "Esc"), " close. ",
      el("del", {}, "foretold, did not come"), " ", el("ins", {}, "came, not foretold")));
}

function rail(episode, most) {
  return el("nav", { class: "rail", "aria-label": "Steps" }, el("ol", {}, ...episode.steps.map((step, t) => {
    const words = `Step ${t + 1}: ${step.a}${step.x ? ", not admissible" : ""}${step.c ? `, advantage ${signed(step.c[3])}` : ""}`;
    return el("li", {}, el("button", { type: "button", title: words, "aria-label": words, on: { click: () => toStep(t) } },
      el("span", { class: step.x ? "no" : "dim" }, String(t + 1)),
      el("span", { class: "act" }, step.a), step.c ? el("span", {}) : "", step.c ? creditBar(step.c[3], most) : ""));
  })));
}

function diagnosis(episode) {
  if (!episode.diagnosis) return "";
  const [mode, detail, lesson, query, critical] = episode.diagnosis;
  return el("section", { class: "step", "aria-label": "Diagnosis" },
    el("div", { class: "shead" }, el("h3", {}, "Diagnosis"), el("span", { class: "tag warned" }, mode)),
    field("What went wrong", "", said(detail)),
    critical ? field("Critical step", "", el("button", { type: "button", on: { click: () => toStep(critical - 1) } }, `Step ${critical}`)) : "",
    field("Lesson", "", said(lesson)), query ? field("Looks for", "", said(query)) : "",
    episode.shared ? field("Taken from", "", el("a", { href: linkTo(episode.shared) }, episode.shared)) : "");
}

/** A word for a shell: names come from the run, and a reader pastes the line. */
const quoted = (word) => (/^[\w/#.:@%+=,-]+$/.test(word) && !word.startsWith("#") ? word : `'${word.replaceAll("'", "'\\''")}'`);

function viewerBody(row, episode) {
  if (!episode) {
    const command = `roleagent-lite show ${quoted(list.run)} ${quoted(row[ID])}`;
    return el("div", { class: "vbody" }, el("div"), el("div", { class: "steps" },
      el("p", {}, "The steps of this episode are not in this page, to keep it small. In a terminal:"), el("pre", {}, command)));
  }
  const most = Math.max(0, ...episode.steps.map((s) => (s.c ? Math.abs(s.c[3]) : 0)));
  return el("div", { class: "vbody" }, rail(episode, most), el("div", { class: "steps" },
    ...episode.steps.map((_, t) => stepCard(episode, t, most, episode.steps.length)),
    episode.steps.length ? "" : el("p", { class: "dim" }, "This episode has no step."),
    episode.error ? el("section", { class: "step", "aria-label": "Error" }, el("h3", {}, "What broke"), el("pre", {}, episode.error)) : "",
    diagnosis(episode)));
}

function markStep(t) {
  atStep = t;
  viewer.querySelectorAll(".rail button").forEach((b, i) => (i === t ? b.setAttribute("aria-current", "true") : b.removeAttribute("aria-current")));
}

function toStep(t) {
  const card = viewer.querySelector(`#step-${t + 1}`);
  if (!card) return;
  markStep(t);
  card.scrollIntoView({ block: "start" });
  card.focus({ preventScroll: true });
}

/** The episode `by` places on in the list as it stands. */
function go(by) {
  const order = episodeTable.order(), row = order[order.indexOf(open) + by];
  if (!row || !order.includes(open)) return;
  history.replaceState(null, "", linkTo(row[ID]));
  showEpisode(row);
}

async function showEpisode(row) {
  open = row;
  const episode = row[BLOCK] >= 0 ? await episodeOf(row) : null;
  if (open !== row) return; // another was asked for meanwhile
  viewer.replaceChildren(viewerHead(row, episode), viewerBody(row, episode));
  if (!viewer.open) viewer.showModal();
  document.title = `${row[ID]} – ${list.run}`;
  viewer.querySelector(".vbody").scrollTop = 0;
  markStep(0);
  viewer.querySelector(".close").focus({ preventScroll: true });
}

function viewerKeys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const keys = {
    j: () => toStep(document.activeElement.closest(".step") ? atStep + 1 : atStep), k: () => toStep(atStep - 1),
    n: () => go(1), ArrowRight: () => go(1), p: () => go(-1), ArrowLeft: () => go(-1),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function startViewer() {
  viewer.addEventListener("keydown", viewerKeys);
  viewer.addEventListener("close", () => {
    const from = open;
    open = null;
    document.title = title;
    history.replaceState(null, "", `#${current.id}`);
    const link = from && [...document.querySelectorAll(`#${current.id} a`)].find((a) => a.getAttribute("href") === linkTo(from[ID]));
    if (link) link.focus();
  });
}
