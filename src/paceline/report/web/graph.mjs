// Nodes and arrows between them: in a ring, or from left to right by level.
import { describeRow, distinct, extent, isKnown, openTable } from "./content.mjs";
import { el, set, setText, svg } from "./elements.mjs";
import { write } from "./format.mjs";
import { tipped, walkable } from "./tips.mjs";

const [ROW, RING_TOP] = [58, 34]; // pixels
const MAX_LABELLED = 24; // arrows with their weight beside them

/** @typedef {{x: number, y: number, side: number}} Place  side: -1 where a name goes to the left, 1 to the right, 0 below */

/**
 * Place nodes: those of a level under each other, or all in a ring.
 * @param {string[]} names
 * @param {(number | null)[] | null} levels
 * @param {number} width
 * @returns {{height: number, places: Map<string, Place>}}
 */
export const placeNodes = (names, levels, width) => {
  if (levels) {
    const order = distinct(levels).sort((a, b) => a - b);
    const columns = order.map((level) => names.filter((_, index) => levels[index] === level));
    const height = Math.max(...columns.map((column) => column.length), 2) * ROW;
    const places = new Map();
    columns.forEach((column, at) => {
      const x = ((at + 0.5) * width) / columns.length;
      column.forEach((name, index) => places.set(name, { x, y: ((index + 0.5) * height) / column.length, side: 0 }));
    });
    return { height, places };
  }
  const radius = Math.max(60, Math.min(width / 2 - 80, 30 + 14 * names.length, 190));
  const turn = (index) => (2 * Math.PI * index) / names.length - Math.PI / 2;
  const place = (angle) => {
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    return { x: width / 2 + radius * cos, y: RING_TOP + radius * (1 + sin), side: Math.abs(cos) < 0.2 ? 0 : Math.sign(cos) };
  };
  return { height: 2 * (radius + RING_TOP), places: new Map(names.map((name, index) => [name, place(turn(index))])) };
};

/**
 * Return the path of an arrow, and where its label goes; both ends leave room for the nodes. It bends, so that the one
 * back is another, or goes from side to side where its nodes are of different levels.
 * @param {Place} from
 * @param {Place} to
 * @param {{width: number, height: number}} node
 * @param {number} bend  share of its length
 */
export const arrowPath = (from, to, node, bend) => {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const round = (one) => one.toFixed(1);
  if (!bend && Math.abs(dx) > node.width) {
    const [x1, x2] = [from.x + (Math.sign(dx) * node.width) / 2, to.x - Math.sign(dx) * (node.width / 2 + 6)];
    const half = round((x1 + x2) / 2);
    const path = `M${round(x1)} ${round(from.y)}C${half} ${round(from.y)} ${half} ${round(to.y)} ${round(x2)} ${round(to.y)}`;
    return { path, middle: { x: x1 + 0.3 * (x2 - x1), y: from.y + 0.2 * dy } };
  }
  const length = Math.hypot(dx, dy) || 1;
  // Where a line towards the other node leaves this one's box.
  const room = Math.min(node.width / 2 / Math.abs(dx || 1e-9), node.height / 2 / Math.abs(dy || 1e-9)) + 3 / length;
  const end = room + 6 / length;
  const [x1, y1, x2, y2] = [from.x + dx * room, from.y + dy * room, to.x - dx * end, to.y - dy * end];
  const middle = { x: (x1 + x2) / 2 - dy * bend, y: (y1 + y2) / 2 + dx * bend };
  return { path: `M${round(x1)} ${round(y1)}Q${round(middle.x)} ${round(middle.y)} ${round(x2)} ${round(y2)}`, middle };
};

const shorten = (text, pixels) => {
  const most = Math.max(Math.floor(pixels / 7), 3);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

const drawNode = (name, state, isBad, place, box, width) => {
  const style = isBad ? "node bad" : "node";
  if (box) {
    const size = { x: place.x - box.width / 2, y: place.y - box.height / 2, width: box.width, height: box.height, rx: 8 };
    const title = svg("text", { class: "node-name", x: place.x, y: place.y, dy: state ? -2 : 4 }, shorten(name, box.width - 8));
    const word = { class: isBad ? "node-state bad" : "node-state", x: place.x, y: place.y, dy: 13 };
    const text = state ? svg("text", word, shorten(state, box.width - 8)) : null;
    return svg("g", { class: "graph-node" }, svg("rect", { class: style, ...size }), title, text);
  }
  const anchor = ["side-left", "side-none", "side-right"][place.side + 1];
  const below = place.side === 0 ? (place.y < 100 ? -16 : 26) : 4;
  const room = place.side ? Math.min(place.x, width - place.x) - 16 : 160;
  const text = shorten(isBad ? `${name} (${state})` : name, room);
  const where = { x: place.x + 16 * place.side, y: place.y, dy: below };
  const title = svg("text", { class: `node-name ${anchor}${isBad ? " bad" : ""}`, ...where }, text);
  return svg("g", { class: "graph-node" }, svg("circle", { class: style, cx: place.x, cy: place.y, r: 10 }), title);
};

const SIZE = { viewBox: "0 0 8 8", refX: 2, refY: 4, markerWidth: 8, markerHeight: 8 };
const ARROW_HEAD = { id: "arrow", ...SIZE, markerUnits: "userSpaceOnUse", orient: "auto" };

/** @returns {View} */
export const graphView = () => {
  const holder = walkable(el("div", { class: "graph", role: "img", tabindex: 0 }));
  const said = el("p", { class: "shown" });
  let section, data, page, width;

  const draw = () => {
    width = holder.clientWidth || 600;
    const nodes = openTable(page.content.tables[section.nodes] ?? { name: "", columns: [], rows: [] });
    const names = nodes.rows.map((row) => String(row[section.node]));
    const { height, places } = placeNodes(names, section.level ? nodes.rows.map((row) => row[section.level]) : null, width);
    const numLevels = section.level ? distinct(nodes.rows.map((row) => row[section.level])).length : 0;
    const box = numLevels ? { width: Math.min(150, Math.max(0.62 * (width / numLevels), 64)), height: 38 } : null;
    const arrows = data.rows.filter((row) => places.has(String(row[section.start])) && places.has(String(row[section.end])));
    const weight = section.weight && data.column[section.weight];
    const [lightest, heaviest] = extent(arrows.map((row) => (weight && row[weight.name]) || 0));
    const [labels, marks] = [[], []];
    arrows.forEach((row) => {
      const [from, to] = [places.get(String(row[section.start])), places.get(String(row[section.end]))];
      const { path, middle } = arrowPath(from, to, box ?? { width: 22, height: 22 }, box ? 0 : 0.07);
      const size = heaviest > lightest ? 1 + (3 * ((row[weight.name] || 0) - lightest)) / (heaviest - lightest) : 1.5;
      const arrow = svg("path", { class: "arrow", d: path, "stroke-width": size.toFixed(1), "marker-end": "url(#arrow)" });
      const details = section.details.length ? section.details : [section.start, section.end, section.weight].filter(Boolean);
      const link = svg("g", { class: "link" }, svg("path", { class: "grip", d: path }), arrow);
      marks.push(tipped(link, describeRow(row, details, data.column)));
      const isLabelled = weight && isKnown(row[weight.name]) && numLevels && arrows.length <= MAX_LABELLED && width > 500;
      if (isLabelled) labels.push(svg("text", { class: "weight", ...middle, dy: 4 }, write(row[weight.name], weight)));
    });
    nodes.rows.forEach((row, index) => {
      const state = section.node_state ? String(row[section.node_state] ?? "") : "";
      const isBad = section.bad.includes(state);
      const shown = section.node_details.length ? section.node_details : [section.node, section.node_state].filter(Boolean);
      const node = drawNode(names[index], state, isBad, places.get(names[index]), box, width);
      marks.push(tipped(node, describeRow(row, shown, nodes.column)));
    });
    const head = svg("marker", ARROW_HEAD, svg("path", { class: "arrow-head", d: "M0 0L8 4L0 8Z" }));
    holder.replaceChildren(svg("svg", { width: "100%", height, "aria-hidden": "true" }, svg("defs", {}, head), marks, labels));
    const text = `${names.length} nodes, ${arrows.length} arrows`;
    set(holder, { "aria-label": `${section.title}: ${text}. ${section.caption}` });
    setText(said, weight ? `${text}; the thicker, the more ${weight.title}.` : `${text}.`);
  };
  new ResizeObserver(() => section && holder.clientWidth !== width && draw()).observe(holder);
  return {
    element: el("div", {}, said, holder),
    update(...given) {
      [section, data, page] = given;
      draw();
    },
  };
};
