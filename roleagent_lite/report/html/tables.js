// Tables: sorting and filtering of those in the page, and a paged table for lists of any length.

/** Ascending order of two values; null last, texts by their numbers and words. */
function compare(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** The same, turned round for `down`; null stays last. */
function ordered(a, b, down) {
  if (a === null || b === null) return compare(a, b);
  return down ? compare(b, a) : compare(a, b);
}

/** Makes a head cell's words a button. The state is in aria-sort. */
function sortButton(cell, run) {
  const button = el("button", { type: "button", class: "sort" }, ...cell.childNodes);
  cell.append(button);
  button.addEventListener("click", () => {
    const down = cell.getAttribute("aria-sort") === "ascending";
    for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    run(down);
  });
}

function sortValue(cell) {
  const text = cell.dataset.s;
  if (text === undefined) return null;
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

function enhance(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    sortButton(cell, (down) => {
      const keyed = rows.map((row, i) => [sortValue(row.cells[column]), i, row]);
      keyed.sort((a, b) => ordered(a[0], b[0], down) || a[1] - b[1]);
      body.append(...keyed.map((one) => one[2]));
    });
  });
  if (!("filter" in table.dataset)) return;
  const field = el("input", { type: "search", autocomplete: "off" });
  const count = el("p", { class: "count", role: "status" });
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((w) => text.includes(w));
      n += row.hidden ? 0 : 1;
    }
    count.textContent = `${number(n)} of ${plural(rows.length, "row", "rows")}`;
  };
  field.addEventListener("input", show);
  show();
  table.parentElement.before(el("div", { class: "filters" }, el("label", {}, "Filter", field), count));
}

/**
 * A long table, one page at a time. `columns`: {title, number, value(row), cell(row)}; `selects`:
 * {title, options: [[value, text]], keep(row, value)}; `text(row)` is what the filter field searches.
 * Gives {order(): rows as filtered and sorted, set(words, choices), focus()}.
 */
function pagedTable(place, { name, columns, rows, selects, text, unit }) {
  const PAGE = 100;
  let page = 0, sorted = rows.slice(), kept = rows;
  const field = el("input", { type: "search", autocomplete: "off", id: `${name}-filter` });
  const choices = selects.map((s) => ({ ...s, box: el("select", {}, el("option", { value: "" }, "all"), ...s.options.map(([v, t]) => el("option", { value: v }, t))) }));
  const count = el("p", { class: "count", role: "status" });
  const head = el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.number && "num" }, c.title)));
  const body = el("tbody");
  const table = el("table", {}, el("caption", { class: "hidden" }, name), el("thead", {}, head), body);
  const scroll = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, table);
  const back = el("button", { type: "button" }, "Previous page"), on = el("button", { type: "button" }, "Next page");
  const where = el("span", { class: "dim" });

  const draw = () => {
    const pages = Math.max(1, Math.ceil(kept.length / PAGE));
    page = Math.min(page, pages - 1);
    const shown = kept.slice(page * PAGE, page * PAGE + PAGE);
    body.replaceChildren(...shown.map((row) => el("tr", {}, ...columns.map((c, i) =>
      el(i ? "td" : "th", { class: c.number ? "num" : c.wide ? null : "nw", scope: i ? null : "row" }, c.cell(row))))));
    if (!shown.length) body.append(el("tr", {}, el("td", { colspan: columns.length, class: "dim" }, `No ${unit[1]} here.`)));
    count.textContent = `${number(kept.length)} of ${plural(rows.length, ...unit)}`;
    where.textContent = `page ${page + 1} of ${pages}`;
    back.disabled = page === 0;
    on.disabled = page >= pages - 1;
    pager.hidden = pages === 1;
  };
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const active = choices.filter((c) => c.box.value !== "");
    kept = sorted.filter((row) =>
      active.every((c) => c.keep(row, c.box.value)) && (!words.length || words.every((w) => text(row).toLowerCase().includes(w))));
    page = 0;
    draw();
  };
  [...head.cells].forEach((cell, i) => sortButton(cell, (down) => {
    const keyed = sorted.map((row, at) => [columns[i].value(row), at, row]);
    keyed.sort((a, b) => ordered(a[0], b[0], down) || a[1] - b[1]);
    sorted = keyed.map((one) => one[2]);
    filter();
  }));
  field.addEventListener("input", filter);
  for (const c of choices) c.box.addEventListener("change", filter);
  const turn = (by) => () => { page += by; draw(); scroll.scrollTop = 0; };
  back.addEventListener("click", turn(-1));
  on.addEventListener("click", turn(1));
  const pager = el("div", { class: "pager" }, back, on, where);
  place.replaceChildren(
    el("div", { class: "filters" }, el("label", {}, "Filter", field), ...choices.map((c) => el("label", {}, c.title, c.box)), count),
    scroll, pager);
  filter();
  return {
    order: () => kept,
    set(words, values) {
      field.value = words;
      choices.forEach((c) => { c.box.value = values[c.title] || ""; });
      filter();
    },
  };
}
