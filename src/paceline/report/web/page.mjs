// The page: its header, then sections under their headings. Content comes as plain data, embedded here.
import { write } from "./format.mjs";
import { add, el, svg, openTable, tipBox, showPicked, makeTable } from "./elements.mjs";
import { drawLine, watchCharts } from "./curves.mjs";
import { drawBars, drawGrid, drawGantt } from "./figures.mjs";

const drawTiles = (section, { column, rows }) =>
  el(
    "dl",
    { class: "tiles" },
    section.tiles.map((tile) =>
      el("div", { class: "card" }, el("dt", {}, column[tile.column].title), el("dd", {}, el("b", {}, write(rows[0][tile.column], column[tile.column])), el("span", {}, tile.note))),
    ),
  );
const drawTable = (section, data) => {
  const names = section.columns.length ? section.columns : Object.keys(data.column);
  const rows = data.rows.slice(0, 200);
  const title = section.title === section.group ? null : el("b", {}, section.title);
  const top = title || section.note ? el("figcaption", {}, title, section.note ? el("span", {}, section.note) : null) : null;
  const about = section.caption ? el("p", { class: "sentence" }, section.caption) : null;
  return el("div", { class: "card table" }, top, makeTable(section, { ...data, rows }, names, section.total.length ? section.total : null), about);
};
const DRAWERS = { tiles: drawTiles, line: drawLine, bars: drawBars, grid: drawGrid, gantt: drawGantt, table: drawTable };

const drawHeader = (content) => {
  const state = content.ended === null ? ["open", "not finished: no end was recorded"] : ["done", `finished: ${content.ended}`];
  return el(
    "header",
    {},
    el("p", { class: "over" }, `Paceline ${content.kind}`),
    el("h1", {}, content.name),
    el("p", {}, el("span", { class: `state ${state[0]}` }, state[1]), ` ${content.about}`),
  );
};
// Hatchings, so that nothing is told apart by colour alone.
const hatchings = () =>
  svg(
    "svg",
    { class: "hatchings", width: 0, height: 0, "aria-hidden": "true" },
    [["bad", 45], ["upload", -45], ["working", 90]].map(([name, angle]) =>
      svg(
        "pattern",
        { id: `hatch-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
        svg("rect", { class: `hatch-${name}-back`, width: 6, height: 6 }),
        svg("path", { class: `hatch-${name}-line`, d: "M0 0V6" }),
      ),
    ),
  );
export const drawPage = (root, content) => {
  root.replaceChildren(drawHeader(content), hatchings());
  let group = null;
  let holder = root;
  let pair = null;
  for (const section of content.sections) {
    if (section.group !== group) {
      group = section.group;
      holder = group ? el("section", {}, el("h2", {}, group)) : root;
      if (group) root.append(holder);
      pair = null;
    }
    const drawn = DRAWERS[section.type](section, openTable(content.tables[section.table]));
    if (!section.is_half) pair = null;
    else if (!pair) holder.append((pair = el("div", { class: "two" })));
    (section.is_half ? pair : holder).append(drawn);
  }
  document.body.append(tipBox);
  watchCharts();
  showPicked();
};
