// Spans of time in a lane per name.
import { describeRow, distinct, extent } from "./content.mjs";
import { colourNumber, colourOf, el, legend, place, svg, swatch } from "./elements.mjs";
import { writeOnAxis } from "./format.mjs";
import { ROW_PIXELS, axisText, lanes, makePlot, rowName, timeTicks } from "./plots.mjs";
import { tipped } from "./tips.mjs";

const ORDER = ["back", "full", "front", "hatched"]; // of drawing

const spanOf = (look, index, top, left, right, isLabelled) => {
  const isTall = look === "full" || look === "back";
  const [x, width, rx] = [place(left), place(right - left), isTall ? 3 : 2];
  const size = { x, width, rx, y: top + (isTall ? 2 : 14), height: isTall ? ROW_PIXELS - 4 : 9 };
  const label = isTall && isLabelled && right - left >= 0.02;
  return svg(
    "g",
    {},
    svg("rect", { class: `span ${look} ${colourOf(index)}`, ...size }),
    label ? svg("text", { class: `span-label ${look}`, x, dx: 4, y: top + 11 }, String(index + 1)) : null,
  );
};

/** @returns {View} */
export const ganttView = () => {
  const [keys, plot] = [el("div"), makePlot()];
  return {
    element: el("div", {}, keys, plot.holder),
    update(section, { column, rows }) {
      const names = lanes(section, rows);
      const lane = new Map(names.map((name, index) => [name, index]));
      const spans = rows.filter((row) => lane.has(row[section.row]));
      const colours = section.colour ? distinct(spans.map((row) => row[section.colour])) : [];
      const [start] = extent(spans.map((row) => row[section.start]));
      const [, end] = extent(spans.map((row) => row[section.end]));
      const ratio = (time) => (time - start) / (end - start || 1);
      const marks = timeTicks(start, end).flatMap((tick) => {
        const x = place(ratio(tick));
        const line = svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: "100%" });
        return [line, axisText(ratio(tick), writeOnAxis(tick, column[section.start]))];
      });
      marks.push(...names.map((name, index) => rowName(String(name), index)));
      const lookOf = (row) => (section.state && section.looks[row[section.state]]) || "full";
      for (const row of [...spans].sort((a, b) => ORDER.indexOf(lookOf(a)) - ORDER.indexOf(lookOf(b)))) {
        const index = section.colour ? colourNumber(section.colour, row[section.colour]) : 0;
        const top = lane.get(row[section.row]) * ROW_PIXELS;
        const mark = spanOf(lookOf(row), index, top, ratio(row[section.start]), ratio(row[section.end]), colours.length > 1);
        marks.push(tipped(mark, () => describeRow(row, section.details, column)));
      }
      const numbered = colours.map((name) => ({ index: colourNumber(section.colour, name), name: String(name) }));
      numbered.sort((a, b) => a.index - b.index);
      const entries = numbered.map(({ index, name }) => [swatch(colourOf(index), index + 1), name]);
      keys.replaceChildren(...(colours.length > 1 ? [legend(entries)] : []));
      plot.draw(`${section.title}. ${section.caption}`, marks, names.length);
    },
  };
};
