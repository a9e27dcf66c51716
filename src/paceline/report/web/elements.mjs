// Elements of the page: text is always set as text, never as markup.

/**
 * @template {Element} T
 * @param {T} element
 * @param {Record<string, any>} attributes
 * @returns {T}
 */
export const set = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return element;
};

const append = (parent, children) => {
  parent.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return parent;
};

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, any>} attributes
 * @param {...any} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export const el = (name, attributes = {}, ...children) => append(set(document.createElement(name), attributes), children);

/**
 * @param {string} name
 * @param {Record<string, any>} attributes
 * @param {...any} children
 * @returns {SVGElement}
 */
export const svg = (name, attributes = {}, ...children) =>
  append(set(document.createElementNS("http://www.w3.org/2000/svg", name), attributes), children);

/**
 * Write a place along a drawing in per cent, so that it stretches with the page.
 * @param {number} ratio
 */
export const place = (ratio) => `${Number((100 * Math.min(Math.max(ratio, 0), 1)).toPrecision(6))}%`;

/**
 * Set a text only if it is another, since that is cheaper and leaves selections alone.
 * @param {Element} element
 * @param {string} text
 */
export const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

/**
 * @param {string} label
 * @param {(text: string) => void} onInput  called with what is typed, in lower case
 */
export const searchField = (label, onInput) => {
  const field = el("input", { type: "search", placeholder: label, "aria-label": label, autocomplete: "off" });
  field.addEventListener("input", () => onInput(field.value.trim().toLowerCase()));
  return field;
};

/**
 * @param {string} label
 * @param {string[][]} options  values and their texts
 * @param {(value: string) => void} onChange
 */
export const selectField = (label, options, onChange) => {
  const field = el("select", { "aria-label": label }, options.map(([value, text]) => el("option", { value }, text)));
  field.addEventListener("change", () => onChange(field.value));
  return field;
};

// --- colours ---------------------------------------------------------------------------------------------------------
/** @param {number} index */
export const colourOf = (index) => `colour-${(index % 8) + 1}`;

const colourNumbers = new Map();

/**
 * Number the values of a column, so that a name has the same colour in all figures.
 * @param {string} column
 * @param {any} name
 * @returns {number}
 */
export const colourNumber = (column, name) => {
  if (!colourNumbers.has(column)) colourNumbers.set(column, new Map());
  const known = colourNumbers.get(column);
  if (!known.has(name)) known.set(name, known.size);
  return known.get(name);
};

const KNOWN_PARTS = new Set(["wait", "benchmark", "download", "train", "upload", "working", "lost", "idle"]);

/**
 * @param {string} name
 * @param {number} index
 */
export const partStyle = (name, index) => (KNOWN_PARTS.has(name) ? `part ${name}` : `part ${colourOf(index)}`);

/**
 * Return a piece of a curve for the legend.
 * @param {string} style
 * @param {number[]} dash
 */
export const lineSwatch = (style, dash) =>
  svg(
    "svg",
    { class: "swatch", width: 26, height: 15, "aria-hidden": "true" },
    svg("line", { stroke: `var(--${style})`, "stroke-dasharray": dash.join(" "), x2: "100%", y1: "50%", y2: "50%" }),
  );

/** @param {any[][]} entries  marks and their labels */
export const legend = (entries) => el("ul", { class: "legend" }, entries.map(([mark, label]) => el("li", {}, mark, label)));

/**
 * @param {string} style
 * @param {string | number} number
 */
export const swatch = (style, number = "") =>
  svg(
    "svg",
    { class: "swatch", width: 18, height: 15, "aria-hidden": "true" },
    svg("rect", { class: style, width: "100%", height: "100%", rx: 3 }),
    number ? svg("text", { class: "swatch-number", x: "50%", y: "50%", dy: "3.5" }, String(number)) : null,
  );
