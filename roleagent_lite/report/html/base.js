// Small helpers: elements made of text only (no HTML is ever parsed), data blocks, theme, tabs.

const $ = (id) => document.getElementById(id);

/** An element. `set`: attributes by name (false and null leave one out); children: nodes or texts. */
function el(name, set, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(set || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

/** The same for SVG. */
function svg(name, set, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(set || {})) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

const number = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const signed = (value, digits = 2) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(digits);
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

/** The data of a block: base64 of gzipped JSON. */
async function unpack(id) {
  const text = atob($(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// --- theme ---------------------------------------------------------------------------------------------

const THEMES = ["system", "light", "dark"];

function remembered() {
  try { return localStorage.getItem("roleagent-theme"); } catch { return null; } // blocked for some files
}

function setTheme(theme) {
  const root = document.documentElement;
  if (theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
  $("theme").textContent = `Theme: ${theme}`;
  try { localStorage.setItem("roleagent-theme", theme); } catch { /* the choice lasts as long as the page */ }
}

function startTheme() {
  const button = $("theme");
  let at = Math.max(0, THEMES.indexOf(remembered()));
  button.hidden = false;
  setTheme(THEMES[at]);
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    setTheme(THEMES[at]);
  });
}

// --- tabs ----------------------------------------------------------------------------------------------

const panels = [...document.querySelectorAll(".panel")];
const tabOf = (panel) => $(`tab-${panel.id}`);
let current = panels[0];

function showPanel(panel, focus = false) {
  if (panel !== current) window.scrollTo(0, 0);
  current = panel;
  for (const one of panels) {
    const on = one === panel, tab = tabOf(one);
    one.hidden = !on;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
  }
  const tab = tabOf(panel), row = tab.parentElement, left = tab.offsetLeft - row.offsetLeft;
  // Not scrollIntoView: it would also move the place from which the Tab key goes on.
  if (left < row.scrollLeft) row.scrollLeft = left;
  else if (left + tab.offsetWidth > row.scrollLeft + row.clientWidth) row.scrollLeft = left + tab.offsetWidth - row.clientWidth;
  if (focus) tab.focus({ preventScroll: true });
}

function startTabs() {
  const row = document.querySelector(".tabs");
  row.setAttribute("role", "tablist");
  row.setAttribute("aria-label", "Sections");
  for (const panel of panels) {
    const tab = tabOf(panel);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.tabIndex = 0;
  }
  row.addEventListener("keydown", (event) => {
    const at = panels.indexOf(current), last = panels.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at ? at - 1 : last, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    history.replaceState(null, "", `#${panels[to].id}`);
    showPanel(panels[to], true);
  });
}
