// Elements of the page: text is always set as text, never as markup.
import { write } from "./format.mjs";

export const add = (parent, children) => {
  for (const child of children.flat()) if (child !== null && child !== undefined) parent.append(child);
  return parent;
};
export const set = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  return element;
};
export const el = (name, attributes = {}, ...children) => add(set(document.createElement(name), attributes), children);
export const svg = (name, attributes = {}, ...children) =>
  add(set(document.createElementNS("http://www.w3.org/2000/svg", name), attributes), children);
export const place = (ratio) => `${Number((100 * Math.min(Math.max(ratio, 0), 1)).toPrecision(6))}%`;

// Rows of a table as objects, and its columns by name.
export const openTable = (table) => {
  const column = Object.fromEntries(table.columns.map((one) => [one.name, one]));
  const rows = table.rows.map((row) => Object.fromEntries(table.columns.map((one, index) => [one.name, row[index]])));
  return { column, rows };
};
export const describeRow = (row, names, column) =>
  names
    .filter((name) => row[name] !== null && row[name] !== undefined)
    .map((name) => `${column[name].title}: ${write(row[name], column[name])}`)
    .join("\n");
export const distinct = (values) => [...new Set(values)];
export const MAX_NAMES = 40;

// --- a box beside the pointer says what is under it --------------------------------------------------------------
const tips = new WeakMap();
export const tipBox = el("div", { class: "tip-box", hidden: true, role: "tooltip" });
export const showTip = (text, event) => {
  tipBox.hidden = !text;
  if (!text) return;
  tipBox.textContent = text;
  const { offsetWidth: width, offsetHeight: height } = tipBox;
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 6);
  const top = event.clientY - height - 12;
  tipBox.style.left = `${Math.max(left, 6)}px`;
  tipBox.style.top = `${top < 6 ? event.clientY + 18 : top}px`;
};
export const tipped = (element, text) => {
  element.classList.add("tip");
  tips.set(element, text);
  return element;
};
const hover = (event) => {
  const mark = event.target.closest ? event.target.closest(".tip") : null;
  if (!mark && event.target.closest && event.target.closest(".u-over")) return; // curves show their own
  const text = mark && tips.get(mark);
  showTip(typeof text === "function" ? text() : text, event);
};
document.addEventListener("pointermove", hover);
document.addEventListener("pointerdown", hover);
document.addEventListener("scroll", () => showTip(""), { passive: true });

// --- one round can be picked, by a click or by the address (#round=3) ----------------------------------------------
export const pickers = [];
const picked = () => {
  const found = location.hash.match(/^#(\w+)=(\w+)$/);
  return found ? { column: found[1], value: found[2] } : null;
};
export const showPicked = () => {
  const choice = picked();
  for (const update of pickers) update(choice);
};
export const pick = (column, value) => {
  history.replaceState(null, "", `#${column}=${value}`);
  showPicked();
};
window.addEventListener("hashchange", showPicked);

// --- frames --------------------------------------------------------------------------------------------------------
export const makeTable = (section, { column, rows }, names, total) => {
  const isNumber = (name) => column[name].kind !== "text" && column[name].kind !== "bool";
  const style = (name) => ({ class: isNumber(name) ? "number" : column[name].kind });
  const cells = (row) =>
    names.map((name, index) =>
      index ? el("td", style(name), write(row[name], column[name])) : el("th", { scope: "row", ...style(name) }, el("bdi", {}, write(row[name], column[name]))),
    );
  const heads = names.map((name) => el("th", { scope: "col", ...style(name) }, column[name].title));
  const sum = total && names.map((name, index) => el("td", style(name), total[index] === "" ? "" : write(total[index], column[name])));
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": section.title },
    el(
      "table",
      { class: names.length > 11 ? "many" : null },
      el("thead", {}, el("tr", {}, heads)),
      el("tbody", {}, rows.map((row) => el("tr", {}, cells(row)))),
      sum ? el("tfoot", {}, el("tr", {}, sum)) : null,
    ),
  );
};
// A figure with its title, a note, the drawing, the sentence below it, and its numbers as a table.
export const frame = (section, data, drawing, names) => {
  const numbers = el("details", {}, el("summary", {}, "Numbers"));
  numbers.addEventListener("toggle", () => {
    if (numbers.children.length < 2) {
      const rows = data.rows.slice(0, 200);
      const known = names.filter((name) => name && data.column[name]);
      numbers.append(makeTable(section, { column: data.column, rows }, distinct(known)));
    }
  });
  return el(
    "figure",
    { class: `card figure-${section.type}`, "aria-label": section.title },
    el("figcaption", {}, el("b", {}, section.title), section.note ? el("span", {}, section.note) : null),
    drawing,
    section.caption ? el("p", { class: "sentence" }, section.caption) : null,
    numbers,
  );
};
export const legend = (entries) => el("ul", { class: "legend" }, entries.map(([mark, label]) => el("li", {}, mark, label)));
export const swatch = (style, number = "") =>
  svg(
    "svg",
    { class: "swatch", width: 18, height: 15, "aria-hidden": "true" },
    svg("rect", { class: style, width: "100%", height: "100%", rx: 3 }),
    number ? svg("text", { class: "swatch-number", x: "50%", y: "50%", dy: "3.5" }, String(number)) : null,
  );
export const colourOf = (index) => `colour-${(index % 8) + 1}`;
// A name has the same colour in all figures.
const colourNumbers = new Map();
export const colourNumber = (column, name) => {
  if (!colourNumbers.has(column)) colourNumbers.set(column, new Map());
  const known = colourNumbers.get(column);
  if (!known.has(name)) known.set(name, known.size);
  return known.get(name);
};
