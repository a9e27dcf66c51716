// Curves and upright columns over a number, drawn by uPlot; the reader picks the axis and which curves are shown.
import { colourNumber, colourOf, el, lineSwatch, selectField, set, setText, swatch } from "./elements.mjs";
import { describeRow, distinct, extent, isKnown } from "./content.mjs";
import { write, writeOnAxis } from "./format.mjs";
import { pick } from "./picking.mjs";
import { showTip } from "./tips.mjs";

/** @typedef {{name: any, label: string, index: number, y: string, rows: Row[]}} Curve */
/** @typedef {{section: Section, data: Data, x: string, curves: Curve[], hidden: Set<any>, colour: (name: string) => any}} Plot */

const MAX_SHOWN_TOGETHER = 8; // curves whose values at one place the tip lists
const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6];
const TIME_STEPS = [0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/**
 * Return the curves of a section: one for each column of y, or for each value of its series.
 * @param {Section} section
 * @param {Data} data
 * @param {string} x
 * @returns {Curve[]}
 */
export const curvesOf = (section, { column, rows }, x) => {
  const points = (y, some) =>
    some.filter((row) => isKnown(row[x]) && isKnown(row[y])).sort((a, b) => a[x] - b[x]);
  if (!section.series) {
    return section.y
      .map((y, index) => ({ name: y, label: column[y].title, index, y, rows: points(y, rows) }))
      .filter((curve) => curve.rows.length);
  }
  const [y] = section.y;
  return distinct(rows.map((row) => row[section.series]))
    .sort((a, b) => Number(a === section.bold) - Number(b === section.bold))
    .map((name, index) => ({
      ...{ name, label: String(name), y, rows: points(y, rows.filter((row) => row[section.series] === name)) },
      index: section.bold === null ? colourNumber(section.series, name) : index,
    }))
    .filter((curve) => curve.rows.length);
};

/**
 * Return the range of y that shows all of these curves, the deadline, and the base of columns.
 * @param {Section} section
 * @param {Data} data
 * @param {Curve[]} curves
 */
export const limits = (section, { column }, curves) => {
  const values = curves.flatMap((curve) => curve.rows.map((row) => row[curve.y]));
  let [low, high] = extent(section.deadline === null ? values : [...values, section.deadline]);
  if (section.shape === "columns") [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const room = 0.06 * (high - low);
  const isBase = (value) => section.shape === "columns" && value === 0 && section.deadline === null;
  const roomAbove = high === section.deadline ? 2.5 * room : room; // for its label
  [low, high] = [isBase(low) ? low : low - room, isBase(high) ? high : high + roomAbove];
  const isPart = column[curves[0].y].kind === "ratio" && values.every((value) => value >= 0 && value <= 1);
  return isPart ? [Math.max(low, 0), Math.min(high, 1.02)] : [low, high];
};

// Not told apart by colour alone.
const dashOf = (index) => (index ? [3 + 3 * (index % 6), 4] : []);

const seriesStyle = ({ section, hidden, colour }, curve) => {
  const isThin = section.bold !== null && curve.name !== section.bold;
  const main = isThin ? colour("soft") : colour(section.bold === null ? colourOf(curve.index) : "accent");
  const [width, alpha] = isThin ? [1, 0.55] : [2.2, 1];
  const style = { show: !hidden.has(curve.name), stroke: main, width, alpha, spanGaps: true };
  if (section.shape === "columns") {
    const isLate = (value) => section.deadline !== null && value > section.deadline;
    const values = (chart, at) => chart.data[at].map((value) => colour(isLate(value) ? "bad" : "train"));
    const disp = { fill: { unit: 3, values }, stroke: { unit: 3, values } };
    return { ...style, paths: uPlot.paths.bars({ size: [0.7, 60], disp }), points: { show: false } };
  }
  const points = { show: !isThin && curve.rows.length <= 60, size: 7, fill: colour("card") };
  return { ...style, points, dash: section.bold === null ? dashOf(curve.index) : [] };
};

const drawDeadline = ({ section, colour }) => (chart) => {
  if (section.deadline === null) return;
  const y = chart.valToPos(section.deadline, "y", true);
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("ink");
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `${12 * devicePixelRatio}px sans-serif`;
  ctx.textAlign = "right";
  ctx.fillText("deadline", bbox.left + bbox.width - 4 * devicePixelRatio, y - 5 * devicePixelRatio);
  ctx.restore();
};

const axesOf = ({ data: { column }, x, curves, colour }) => {
  const axis = { stroke: colour("soft"), font: "12px system-ui, sans-serif", ticks: { show: false } };
  const label = (name) => (chart, ticks) => ticks.map((tick) => (tick === null ? "" : writeOnAxis(tick, column[name])));
  const steps = { count: WHOLE_STEPS, seconds: TIME_STEPS }[column[x].kind];
  // As wide as the longest label, so that none is cut and no room is lost.
  const size = (chart, labels) => 14 + 7 * Math.max(3, ...(labels ?? []).map((one) => one.length));
  return [
    { ...axis, grid: { show: false }, size: 34, space: 64, incrs: steps, values: label(x) },
    { ...axis, grid: { stroke: colour("grid"), width: 1 }, size, values: label(curves[0].y) },
  ];
};

/**
 * @param {Plot} plot
 * @param {HTMLElement} holder
 */
const makeChart = (plot, holder) => {
  const { section, data, x, curves, hidden } = plot;
  const xs = distinct(curves.flatMap((curve) => curve.rows.map((row) => row[x]))).sort((a, b) => a - b);
  const at = new Map(xs.map((one, index) => [one, index]));
  const values = curves.map((curve) => {
    const column = new Array(xs.length).fill(null);
    for (const row of curve.rows) column[at.get(row[x])] = row[curve.y];
    return column;
  });
  const step = xs.length > 1 ? extent(xs.slice(1).map((one, index) => one - xs[index]))[0] : 1;
  const side = section.shape === "columns" ? 0.6 * step : xs.length > 1 ? 0 : 0.5;
  const visible = curves.filter((curve) => !hidden.has(curve.name));
  const [low, high] = limits(section, data, visible.length ? visible : curves);
  return new uPlot(
    {
      ...{ width: Math.max(holder.clientWidth - 24, 160), height: 220, legend: { show: false }, cursor: { show: false } },
      scales: {
        x: { time: false, range: () => [xs[0] - side, xs[xs.length - 1] + side] },
        y: section.is_log ? { distr: 3 } : { range: () => [low, high] },
      },
      axes: axesOf(plot),
      series: [{}, ...curves.map((curve) => seriesStyle(plot, curve))],
      hooks: { draw: [drawDeadline(plot)] },
    },
    [xs, ...values],
    holder,
  );
};

const describePoint = ({ section, data, x, curves, hidden }, { curve, row }) => {
  const own = section.series ? [section.series, curve.y] : section.y;
  const names = section.details.length ? section.details : own;
  const text = describeRow(row, distinct([x, ...names]).filter(Boolean), data.column);
  const isAlone = section.bold !== null || !section.series || curves.length > MAX_SHOWN_TOGETHER;
  const others = isAlone ? [] : curves.filter((one) => one !== curve && !hidden.has(one.name));
  const beside = others.flatMap((one) => {
    const there = one.rows.find((other) => other[x] === row[x]);
    return there ? [`${one.label}: ${write(there[one.y], data.column[one.y])}`] : [];
  });
  return [text, ...beside].join("\n");
};

/** A cross and a dot at one point of a chart, moved by the pointer or by the arrow keys. */
const makeCursor = (holder) => {
  const [cross, dot] = [el("div", { class: "cross" }), el("div", { class: "dot" })];
  /** @type {{chart: any, plot: Plot} | null} */
  let drawn = null;
  /** @type {{curve: Curve, row: Row} | null} */
  let at = null;
  const visible = () => drawn.plot.curves.filter((curve) => !drawn.plot.hidden.has(curve.name));
  const placeOf = ({ curve, row }) => [drawn.chart.valToPos(row[drawn.plot.x], "x"), drawn.chart.valToPos(row[curve.y], "y")];
  const show = (point) => {
    at = point;
    cross.hidden = dot.hidden = !point;
    set(holder, { "data-at": point ? point.row[drawn.plot.section.x] : null });
    if (!point) return showTip("");
    const [left, top] = placeOf(point);
    [cross.style.left, dot.style.left, dot.style.top] = [left, left, top].map((one) => `${one}px`);
    const box = drawn.chart.over.getBoundingClientRect();
    return showTip(describePoint(drawn.plot, point), { clientX: box.left + left, clientY: box.top + top });
  };
  const nearest = (left, top) => {
    let [best, distance] = [null, 60];
    for (const curve of visible()) {
      for (const row of curve.rows) {
        const [x, y] = placeOf({ curve, row });
        const away = drawn.plot.section.shape === "columns" ? Math.abs(x - left) : Math.hypot(x - left, y - top);
        if (away < distance) [best, distance] = [{ curve, row }, away];
      }
    }
    return best;
  };
  const point = (event) => {
    if (!drawn) return;
    const box = drawn.chart.over.getBoundingClientRect();
    show(nearest(event.clientX - box.left, event.clientY - box.top));
  };
  const walk = (event) => {
    const curves = drawn ? visible() : [];
    if (!curves.length) return;
    const curve = curves.find((one) => one.name === at?.curve.name) ?? curves[curves.length - 1];
    const index = at ? curve.rows.findIndex((row) => row[drawn.plot.x] >= at.row[drawn.plot.x]) : -1;
    const last = curve.rows.length - 1;
    const next = { ArrowLeft: Math.max(index - 1, 0), ArrowRight: Math.min(index + 1, last), Home: 0, End: last }[event.key];
    const turn = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Escape") return void show(null);
    if (next === undefined && (!turn || !at)) return;
    event.preventDefault();
    if (next !== undefined) return void show({ curve, row: curve.rows[next] });
    const other = curves[(curves.indexOf(curve) + turn + curves.length) % curves.length];
    const x = at.row[drawn.plot.x];
    show({ curve: other, row: other.rows.find((row) => row[drawn.plot.x] >= x) ?? other.rows[other.rows.length - 1] });
  };
  holder.addEventListener("pointermove", point);
  holder.addEventListener("pointerdown", point);
  holder.addEventListener("pointerleave", () => show(null));
  holder.addEventListener("blur", () => show(null));
  holder.addEventListener("keydown", walk);
  const pickHere = () => holder.dataset.at && drawn.plot.x === drawn.plot.section.x && pick(drawn.plot.x, holder.dataset.at);
  holder.addEventListener("click", pickHere);
  holder.addEventListener("keydown", (event) => event.key === "Enter" && pickHere());
  /** Follow a chart that takes the place of the last. */
  return (chart, plot) => {
    drawn = { chart, plot };
    chart.over.append(cross, dot);
    if (!at) cross.hidden = dot.hidden = true;
  };
};

const colours = () => {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
};

/** @type {Set<() => void>} */
const redraws = new Set();
let chosenX = ""; // for all charts, so that they can be compared

/** @returns {View} */
export const lineView = () => {
  const keys = el("ul", { class: "legend" });
  const holder = el("div", { class: "curves", role: "img", tabindex: 0 });
  const [over, empty] = [el("p", { class: "over-axis" }), el("p", { class: "empty" }, "Nothing was measured yet.")];
  const axis = selectField("Horizontal axis", [], (value) => {
    chosenX = value;
    for (const redraw of redraws) redraw();
  });
  const hidden = new Set();
  const follow = makeCursor(holder);
  let section, data, chart;

  const toggle = (name) => {
    if (!hidden.delete(name)) hidden.add(name);
    draw();
  };
  const drawKeys = (curves) => {
    const isBold = section.bold !== null;
    const entries = isBold
      ? [["accent-fill", section.bold], ["soft-fill", `each ${data.column[section.series].title}`]]
      : curves.map((curve) => [colourOf(curve.index), curve.label, curve.name, dashOf(curve.index)]);
    keys.hidden = curves.length < 2 && (isBold || section.series === null); // a lone curve of a series has a name, too
    if (keys.dataset.names !== entries.join("\n")) {
      keys.dataset.names = entries.join("\n");
      const button = (name, ...inner) => {
        const made = el("button", { type: "button" }, ...inner);
        made.addEventListener("click", () => toggle(name));
        return made;
      };
      const item = ([style, label, , dash]) => [dash ? lineSwatch(style, dash) : swatch(style), el("bdi", {}, label)];
      keys.replaceChildren(...entries.map((one) => el("li", {}, isBold ? item(one) : button(one[2], ...item(one)))));
    }
    keys.querySelectorAll("button").forEach((one, index) => set(one, { "aria-pressed": String(!hidden.has(entries[index][2])) }));
  };
  const drawAxis = (x) => {
    const choices = [section.x, ...section.other_x];
    if (choices.length === 1) return setText(over, data.column[x].title);
    if (axis.dataset.choices !== choices.join()) {
      axis.dataset.choices = choices.join();
      axis.replaceChildren(...choices.map((value) => el("option", { value }, data.column[value].title)));
      over.replaceChildren("over ", axis);
    }
    axis.value = x;
    return undefined;
  };
  const draw = () => {
    const x = section.other_x.includes(chosenX) ? chosenX : section.x;
    const curves = curvesOf(section, data, x);
    chart?.destroy();
    chart = null;
    empty.hidden = curves.length > 0;
    holder.hidden = over.hidden = !curves.length;
    drawKeys(curves);
    drawAxis(x);
    if (!curves.length) return;
    const last = curves[curves.length - 1];
    const said = [last.rows[0], last.rows[last.rows.length - 1]].map(
      (row) => `${write(row[last.y], data.column[last.y])} at ${data.column[x].title} ${write(row[x], data.column[x])}`,
    );
    set(holder, { "aria-label": `${section.title}: from ${said[0]} to ${said[1]}` });
    if (!holder.isConnected) return; // drawn once it has a width
    const plot = { section, data, x, curves, hidden, colour: colours() };
    chart = makeChart(plot, holder);
    follow(chart, plot);
  };
  redraws.add(() => section && draw());
  return {
    element: el("div", {}, keys, holder, empty, over),
    update(...given) {
      [section, data] = given;
      draw();
    },
  };
};

/** Draw curves again when the width of the page or its colours change. */
export const watchCharts = () => {
  let width = document.documentElement.clientWidth;
  const redraw = () => redraws.forEach((one) => one());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("resize", () => {
    if (width !== document.documentElement.clientWidth) redraw();
    width = document.documentElement.clientWidth;
  });
};
