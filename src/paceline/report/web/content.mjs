// What a page shows, as plain data: how it is cleaned, changed and read. Nothing here draws.
import { printable, write } from "./format.mjs";

/**
 * Make every hidden character of what came from the network visible.
 * @template T
 * @param {T} value
 * @returns {T}
 */
export const clean = (value) => {
  const anyValue = /** @type {any} */ (value);
  if (typeof anyValue === "string") return /** @type {any} */ (printable(anyValue));
  if (Array.isArray(anyValue)) return /** @type {any} */ (anyValue.map(clean));
  if (anyValue === null || typeof anyValue !== "object") return value;
  return /** @type {any} */ (Object.fromEntries(Object.entries(anyValue).map(([key, one]) => [printable(key), clean(one)])));
};

/**
 * Return the table after a change: rows go from the front, others are set by index, and then it is cut.
 * @param {Table | undefined} table
 * @param {string} name
 * @param {TableChange} change
 * @returns {Table}
 */
const changeTable = (table, name, change) => {
  const rows = (table?.rows ?? []).slice(change.drop);
  for (const [index, row] of change.rows) rows[index] = row;
  rows.length = change.length;
  return { name, columns: change.columns ?? table?.columns ?? [], rows };
};

/**
 * Return the content after a change; what did not change is the same object, so that it need not be drawn again.
 * @param {PageContent} content
 * @param {ContentChange} change
 * @returns {PageContent}
 */
export const applyChange = (content, { tables: changed, ...fields }) => {
  const tables = { ...content.tables };
  for (const [name, change] of Object.entries(changed ?? {})) {
    if (change === null) delete tables[name];
    else tables[name] = changeTable(tables[name], name, change);
  }
  const known = new Map(content.sections.map((section) => [JSON.stringify(section), section]));
  const sections = (fields.sections ?? content.sections).map((section) => known.get(JSON.stringify(section)) ?? section);
  return { ...content, ...fields, sections, tables };
};

/** @type {WeakMap<Table, Data>} */
const opened = new WeakMap();

/**
 * Return the rows of a table as objects, and its columns by name.
 * @param {Table} table
 * @returns {Data}
 */
export const openTable = (table) => {
  const known = opened.get(table);
  if (known) return known;
  const column = Object.fromEntries(table.columns.map((one) => [one.name, one]));
  const rows = table.rows.map((row) => Object.fromEntries(table.columns.map((one, index) => [one.name, row[index]])));
  opened.set(table, { column, rows });
  return { column, rows };
};

/** @param {any} value */
export const isKnown = (value) => value !== null && value !== undefined;

/**
 * Write the named values of a row, a line each.
 * @param {Row} row
 * @param {string[]} names
 * @param {Record<string, Column>} column
 */
export const describeRow = (row, names, column) =>
  names
    .filter((name) => isKnown(row[name]))
    .map((name) => `${column[name].title}: ${write(row[name], column[name])}`)
    .join("\n");

/**
 * @template T
 * @param {T[]} values
 */
export const distinct = (values) => [...new Set(values)];

/**
 * Return the least and the largest of these; without any, a range of nothing.
 * @param {number[]} values
 */
export const extent = (values) =>
  values.length ? values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]) : [0, 0];

/**
 * Compare names as people order them: node-2 before node-10.
 * @param {any} a
 * @param {any} b
 */
export const compareNames = new Intl.Collator("en", { numeric: true }).compare;

/**
 * Compare values of a column; those that are not known come last either way.
 * @param {any} a
 * @param {any} b
 * @param {number} direction  1 for ascending, -1 for descending
 */
export const compareValues = (a, b, direction) => {
  if (!isKnown(a) || !isKnown(b)) return Number(!isKnown(a)) - Number(!isKnown(b));
  return direction * (typeof a === "string" || typeof b === "string" ? compareNames(a, b) : a - b);
};

/** @typedef {{column: string, direction: number}} Sort  no column: as the rows came */

/**
 * Return what a click on a heading sorts by: ascending, then descending, then as the rows came.
 * @param {Sort} sort
 * @param {string} column
 */
export const nextSort = (sort, column) => {
  if (sort.column !== column) return { column, direction: 1 };
  return sort.direction === 1 ? { column, direction: -1 } : { column: "", direction: 1 };
};

/**
 * @param {Sort} sort
 * @param {string} column
 */
export const ariaSort = (sort, column) => {
  if (sort.column !== column) return null;
  return sort.direction === 1 ? "ascending" : "descending";
};
