// Devices of a fleet as lanes: what each did since its round opened, in order, and how it stands. Nothing here draws.
import { compareNames, extent, isKnown } from "./content.mjs";

/**
 * @typedef {object} Lane
 * @property {Row} row
 * @property {string} name
 * @property {string} state
 * @property {boolean} isBad
 * @property {{part: string, start: number, end: number}[]} spans  in seconds since the round opened
 * @property {boolean} isRunning  whether the last span grows
 * @property {number | null} deadline
 * @property {number | null} expected
 * @property {number | null} arrival
 */

const valueOf = (row, name) => (name && isKnown(row[name]) ? row[name] : null);

/**
 * Return the lane of a device.
 * @param {Section} section
 * @param {Row} row
 * @param {number} now  the run's clock, up to which the last span reaches while something goes on
 * @returns {Lane}
 */
export const laneOf = (section, row, now) => {
  const [spans, doing] = [[], valueOf(row, section.doing)];
  let at = 0;
  for (const part of section.parts) {
    if (!row[part]) continue;
    spans.push({ part, start: at, end: at + row[part] });
    at += row[part];
  }
  if (doing !== null) {
    const start = Math.max(at, row[section.since] ?? 0);
    spans.push({ part: doing, start, end: Math.max(start, now - row[section.opened]) });
  }
  const [deadline, expected, arrival] = [section.deadline, section.expected, section.arrival].map((name) => valueOf(row, name));
  const state = String(row[section.state] ?? "");
  const isBad = section.bad.includes(row[section.state]);
  return { row, name: String(row[section.row]), state, isBad, spans, isRunning: doing !== null, deadline, expected, arrival };
};

/** @param {Lane} lane */
export const endOf = (lane) => lane.spans[lane.spans.length - 1]?.end ?? 0;

// When a device came, or else when it will have come at the earliest; in deadlines where it has one.
const slowness = (lane) => (lane.arrival ?? Math.max(endOf(lane), lane.expected ?? 0)) / (lane.deadline || 1);

/** @type {Record<string, (a: Lane, b: Lane) => number>} */
const ORDERS = {
  slowest: (a, b) => slowness(b) - slowness(a),
  name: (a, b) => compareNames(a.name, b.name),
  state: (a, b) => compareNames(a.state, b.state),
};

/**
 * Return the lanes to show, in order.
 * @param {Lane[]} lanes
 * @param {{sort: string, isTroubleFirst: boolean, text: string}} choice  lanes whose name or state has the text
 */
export const arrangeLanes = (lanes, { sort, isTroubleFirst, text }) => {
  const trouble = (a, b) => (isTroubleFirst ? Number(b.isBad) - Number(a.isBad) : 0);
  return lanes
    .filter((lane) => `${lane.name}\n${lane.state}`.toLowerCase().includes(text))
    .sort((a, b) => trouble(a, b) || ORDERS[sort](a, b) || ORDERS.name(a, b));
};

/**
 * Return how many seconds a lane has room for: the last deadline and what is late, as far as that leaves the rest readable.
 * @param {Lane[]} lanes
 */
export const secondsShown = (lanes) => {
  const [, deadline] = extent(lanes.map((lane) => lane.deadline ?? 0));
  const [, end] = extent(lanes.map((lane) => Math.max(endOf(lane), lane.arrival ?? 0, lane.expected ?? 0)));
  return (deadline ? Math.min(Math.max(deadline, end), 1.5 * deadline) : end) * 1.04 || 1;
};

/**
 * Count the lanes of each state, trouble first, then the commonest.
 * @param {Lane[]} lanes
 */
export const countStates = (lanes) => {
  const counts = new Map();
  for (const { state, isBad } of lanes) counts.set(state, { state, isBad, count: (counts.get(state)?.count ?? 0) + 1 });
  return [...counts.values()].sort((a, b) => Number(b.isBad) - Number(a.isBad) || b.count - a.count);
};
