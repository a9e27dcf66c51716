// How values are written, by the kind of their column: the same as paceline/topologies/reporting/formatting.py.
export const NONE = "–";

// Characters that act on a terminal, turn the text around or are not seen at all.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;
/** @param {string} text */
export const printable = (text) =>
  text.replace(HIDDEN, (one) => {
    const code = one.codePointAt(0).toString(16);
    const [sign, length] = code.length > 4 ? ["U", 8] : code.length > 2 ? ["u", 4] : ["x", 2];
    return `\\${sign}${code.padStart(length, "0")}`;
  });

const counted = (value) => Math.round(value).toLocaleString("en-US");
/**
 * @param {number} value
 * @param {number} number  of digits
 */
export const digits = (value, number) => String(Number(value.toPrecision(number)));
const scaled = (value, units) => {
  for (const unit of units) {
    if (Math.abs(value) < 999.5) return `${digits(value, 3)} ${unit}`;
    value /= 1000;
  }
  return `${counted(1000 * value)} ${units[units.length - 1]}`;
};
/** @param {number} value */
export const percent = (value) => `${(Math.round(1000 * value) / 10 || 0).toFixed(1)} %`.replace("-", "−");

/** @param {number} value  seconds */
export const duration = (value) => {
  const size = Math.abs(value);
  if (size < 100) return `${value.toFixed(size < 1 ? 3 : size < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(Math.round(value) / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(value) - 60 * minutes} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
const lateness = (value) => {
  const rounded = Math.round(1000 * value) / 10;
  return rounded ? `${Math.abs(rounded).toFixed(1)} % ${rounded > 0 ? "late" : "early"}` : "on time";
};
const WRITERS = {
  text: String,
  count: counted,
  number: (value) => (Math.abs(value) >= 1000 ? counted(value) : digits(value, 4)),
  seconds: duration,
  ratio: percent,
  lateness,
  bytes: (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"]),
  joules: (value) => scaled(value / 3.6, ["mWh", "Wh", "kWh", "MWh"]),
  grams: (value) => scaled(1000 * value, ["mg", "g", "kg", "t"]),
  money: (value) => value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
  bool: (value) => (value ? "yes" : "no"),
};
/**
 * Write a value by the kind of its column.
 * @param {any} value
 * @param {Pick<Column, "kind" | "unit">} column
 * @returns {string}
 */
export const write = (value, column) => {
  if (value === null || value === undefined) return NONE;
  const text = WRITERS[typeof value === "string" ? "text" : column.kind](value);
  return column.unit ? text + (column.unit.startsWith("/") ? "" : " ") + column.unit : text;
};
// On axes and in cells there is little room.
/** @type {typeof write} */
export const writeOnAxis = (value, column) => {
  if (column.kind === "ratio") return `${digits(100 * value, 4)} %`;
  if (column.kind === "lateness") return `${value > 0 ? "+" : ""}${digits(100 * value, 3)} %`.replace("-", "−");
  if (column.kind === "seconds") return value < 120 ? `${digits(value, 4)} s` : duration(value).replace(" 0 s", "");
  if (column.kind === "count" || column.kind === "number") {
    return Math.abs(value) < 1e4 ? digits(value, 4) : scaled(value, ["", "k", "M", "G"]).trim();
  }
  return write(value, column);
};
/** @type {typeof write} */
export const writeInCell = (value, column) => {
  if (column.kind === "ratio") return String(Math.round(100 * value));
  return column.kind === "count" ? String(value) : digits(value, 3);
};
