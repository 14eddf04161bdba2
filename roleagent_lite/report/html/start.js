// Puts the page together: what its address asks for, the keys that work everywhere.

const title = document.title;

/** Shows what the address names: a section, an episode (#t=ID), or episodes that hold a word (#episodes&q=WORD). */
async function follow() {
  const [name, ...rest] = location.hash.slice(1).split("&");
  const said = new Map([name, ...rest].filter((p) => p.includes("=")).map((p) => [p.slice(0, p.indexOf("=")), p.slice(p.indexOf("=") + 1)]));
  const read = (key) => { try { return decodeURIComponent(said.get(key) || ""); } catch { return ""; } };
  if (said.has("t") && list) {
    const row = byId.get(read("t"));
    if (row) await showEpisode(row);
    else {
      showPanel($("episodes"));
      $("episodes-words").textContent = `No episode ${read("t")} in this run. ${list.words}`;
    }
    return;
  }
  if (viewer.open) viewer.close();
  const panel = panels.find((p) => p.id === name);
  if (panel) showPanel(panel);
  if (said.has("q") && episodeTable) episodeTable.set(read("q"), {});
}

function keysEverywhere(event) {
  const writing = event.target.closest("input, select, textarea");
  if (event.ctrlKey || event.altKey || event.metaKey || writing) return;
  if (event.key === "?") {
    event.preventDefault();
    if (!$("keys").open) $("keys").showModal();
  } else if (event.key === "/" && !viewer.open && !$("keys").open) {
    const box = [...current.querySelectorAll("input")].find((i) => i.offsetParent !== null);
    if (box) { event.preventDefault(); box.focus(); }
  }
}

async function start() {
  startTheme();
  startTabs();
  showPanel(panels[0]);
  document.querySelectorAll("table[data-sort]").forEach(enhance);
  $("help").hidden = false;
  $("help").addEventListener("click", () => $("keys").showModal());
  $("keys").querySelector(".close").addEventListener("click", () => $("keys").close());
  document.addEventListener("keydown", keysEverywhere);
  startViewer();
  window.addEventListener("hashchange", follow);
  if ($("list")) {
    try { await startLists(); } catch (error) { $("episodes-words").textContent = `The episodes cannot be read: ${error}`; }
  }
  await follow();
  document.documentElement.dataset.ready = "true";
}

start();
