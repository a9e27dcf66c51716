// What drawings with a row per name share: rows, ticks and a holder that the arrow keys walk through. All is SVG in per
// cent of the width.
import { distinct } from "./content.mjs";
import { el, place, set, svg } from "./elements.mjs";
import { tipped, walkable } from "./tips.mjs";

export const ROW_PIXELS = 26;
const MAX_NAMES = 40;

// A label needs some room, and phones have little.
export const mostTicks = () => Math.max(3, Math.min(8, Math.floor(window.innerWidth / 120)));

/**
 * @param {number} low
 * @param {number} high
 * @param {number} most  ticks, about
 */
export const niceTicks = (low, high, most = mostTicks()) => {
  const raw = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + 1e-9 * step; tick += step) ticks.push(tick);
  return ticks;
};

/**
 * @param {number} low
 * @param {number} high
 */
export const timeTicks = (low, high) => {
  const unit = high - low > 7200 ? 3600 : high - low > 180 ? 60 : 1;
  return niceTicks(low / unit, high / unit).map((tick) => tick * unit);
};

/**
 * @param {Section} section
 * @param {Row[]} rows
 * @returns {any[]}
 */
export const lanes = (section, rows) => distinct(rows.map((row) => row[section.row])).slice(0, MAX_NAMES);

/**
 * @param {string} name
 * @param {number} row
 */
export const rowName = (name, row) => {
  const short = name.length > 16 ? `${name.slice(0, 15)}…` : name;
  const text = svg("text", { class: "row-name", x: -8, y: row * ROW_PIXELS + ROW_PIXELS / 2, dy: 4 }, short);
  return short === name ? text : tipped(text, name);
};

/**
 * @param {number} x  from 0 to 1
 * @param {string} text
 */
export const axisText = (x, text) => svg("text", { class: x > 0.97 ? "x last" : "x", x: place(x), y: "100%", dy: 16 }, text);

/** Make the holder of a drawing; it stays when the drawing is made anew, and so does the focus. */
export const makePlot = () => {
  const holder = walkable(el("div", { class: "plot", tabindex: 0, role: "img" }));
  return {
    holder,
    /**
     * @param {string} label
     * @param {SVGElement[]} marks
     * @param {number} numRows
     * @param {string} style
     */
    draw(label, marks, numRows, style = "") {
      set(holder, { "aria-label": label, class: `plot ${style}` });
      holder.replaceChildren(svg("svg", { width: "100%", height: numRows * ROW_PIXELS + 4, "aria-hidden": "true" }, marks));
    },
  };
};
