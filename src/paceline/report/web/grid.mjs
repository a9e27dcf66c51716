// A cell per name and number: the darker the larger, hatched where there was trouble.
import { describeRow, extent, isKnown } from "./content.mjs";
import { el, place, setText, svg } from "./elements.mjs";
import { writeInCell } from "./format.mjs";
import { pick } from "./picking.mjs";
import { ROW_PIXELS, axisText, lanes, makePlot, mostTicks, niceTicks, rowName } from "./plots.mjs";
import { tipped } from "./tips.mjs";

const MAX_COLUMNS = 120;

/**
 * Return the row that each cell shows; with very many columns a cell stands for several, and shows the worst of them.
 * @param {Section} section
 * @param {Row[]} rows
 */
export const cellsOf = (section, rows) => {
  const isBad = (row) => section.state !== null && section.bad.includes(row[section.state]);
  const [first, last] = extent(rows.map((row) => row[section.x]));
  const step = Math.ceil((last - first + 1) / MAX_COLUMNS);
  const size = (row) => row[section.value] || 0;
  const worst = (a, b) => (isBad(a) !== isBad(b) ? (isBad(a) ? a : b) : size(a) >= size(b) ? a : b);
  const cells = new Map();
  for (const row of rows) {
    const key = `${Math.floor((row[section.x] - first) / step)} ${row[section.row]}`;
    cells.set(key, cells.has(key) ? worst(cells.get(key), row) : row);
  }
  return { cells, first, last, step, isBad, numColumns: Math.ceil((last - first + 1) / step) };
};

/** @returns {View} */
export const gridView = () => {
  const plot = makePlot();
  const [over, shared] = [el("p", { class: "over-axis" }), el("p", { class: "shown" })];
  return {
    element: el("div", {}, shared, plot.holder, over),
    update(section, { column, rows }) {
      const names = lanes(section, rows);
      const { cells, first, last, step, isBad, numColumns } = cellsOf(section, rows);
      const [low, high] = extent(rows.map((row) => row[section.value]).filter(isKnown));
      const shade = (amount) => (high > low ? ((amount || 0) - low) / (high - low) : 0.5);
      let longest = 1;
      const cellOf = (row, at, index) => {
        const amount = row[section.value];
        const sign = isBad(row) ? (isKnown(amount) ? "!" : "×") : "";
        const text = (isKnown(amount) ? writeInCell(amount, column[section.value]) : "") + sign;
        longest = Math.max(longest, text.length);
        const [x, y] = [place(at / numColumns), index * ROW_PIXELS];
        const opacity = isBad(row) ? null : (0.1 + 0.5 * shade(amount)).toFixed(2);
        const size = { x, y: y + 1, width: place(1 / numColumns), height: ROW_PIXELS - 2, rx: 4 };
        const mark = svg(
          "g",
          {},
          svg("rect", { class: isBad(row) ? "cell bad" : "cell", ...size, "fill-opacity": opacity }),
          svg("text", { class: "digits", x: place((at + 0.5) / numColumns), y: y + ROW_PIXELS / 2, dy: 4 }, text),
        );
        mark.addEventListener("click", () => pick(section.x, row[section.x]));
        return tipped(mark, () => describeRow(row, section.details, column));
      };
      const marks = names.map((name, index) => rowName(String(name), index));
      names.forEach((name, index) => {
        for (let at = 0; at < numColumns; at++) {
          const row = cells.get(`${at} ${name}`);
          if (row) marks.push(cellOf(row, at, index));
        }
      });
      const ticks = niceTicks(first, last, 1.5 * mostTicks()).filter(Number.isInteger);
      for (const tick of ticks) marks.push(axisText((Math.floor((tick - first) / step) + 0.5) / numColumns, String(tick)));
      const density = numColumns > 26 ? "bare" : longest * numColumns <= 26 ? "" : "wide";
      plot.draw(`${section.title}. ${section.caption}`, marks, names.length, density);
      setText(over, column[section.x].title);
      setText(shared, step > 1 ? `Each cell is the highest of ${step}.` : "");
      shared.hidden = step === 1;
    },
  };
};
