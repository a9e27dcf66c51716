// Curves and upright columns, drawn by uPlot.
import { write, writeOnAxis } from "./format.mjs";
import { set, el, describeRow, distinct, showTip, pick, frame, legend, swatch, colourOf, colourNumber } from "./elements.mjs";

const theme = () => {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
};
export const charts = [];

// Curves that are drawn: a name, the rows, and the column of y.
const curvesOf = (section, rows) => {
  const known = (name, some) => some.filter((row) => row[name] !== null && row[name] !== undefined);
  if (!section.series) return section.y.map((y) => ({ name: y, y, rows: known(y, rows) })).filter((one) => one.rows.length);
  const [y] = section.y;
  const names = distinct(rows.map((row) => row[section.series])).sort((a, b) => (a === section.bold) - (b === section.bold));
  return names
    .map((name) => ({ name, y, rows: known(y, rows.filter((row) => row[section.series] === name)) }))
    .filter((one) => one.rows.length);
};

export const indexOf = (section, curve, index) => (section.series && section.bold === null ? colourNumber(section.series, curve.name) : index);
const seriesStyle = (section, curve, at, colour) => {
  const index = indexOf(section, curve, at);
  const isThin = section.bold !== null && curve.name !== section.bold;
  const main = isThin ? colour("soft") : colour(section.bold === null ? `colour-${(index % 8) + 1}` : "accent");
  const style = { label: String(curve.name), stroke: main, width: isThin ? 1 : 2.2, spanGaps: true, alpha: isThin ? 0.55 : 1 };
  if (section.shape === "columns") {
    const bad = (value) => section.deadline !== null && value > section.deadline;
    const values = (chart, at) => chart.data[at].map((value) => colour(bad(value) ? "bad" : "train"));
    const disp = { fill: { unit: 3, values }, stroke: { unit: 3, values } };
    return { ...style, paths: uPlot.paths.bars({ size: [0.7, 60], disp }), points: { show: false } };
  }
  if (index && section.bold === null) style.dash = [6 + 3 * index, 4]; // not told apart by colour alone
  return { ...style, points: { show: !isThin && curve.rows.length <= 60, size: 7, fill: colour("card") } };
};

const limits = (section, column, curves) => {
  const values = curves.flatMap((curve) => curve.rows.map((row) => row[curve.y]));
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (section.shape === "columns") [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  if (section.deadline !== null) [low, high] = [Math.min(low, section.deadline), Math.max(high, section.deadline)];
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const room = 0.06 * (high - low);
  const isBase = (value) => section.shape === "columns" && value === 0 && section.deadline === null;
  const roomAbove = high === section.deadline ? 2.5 * room : room; // for its label
  [low, high] = [isBase(low) ? low : low - room, isBase(high) ? high : high + roomAbove];
  const isPart = column[curves[0].y].kind === "ratio" && values.every((value) => value >= 0 && value <= 1);
  return isPart ? [Math.max(low, 0), Math.min(high, 1.02)] : [low, high];
};

const drawDeadline = (section, colour) => (chart) => {
  if (section.deadline === null) return;
  const y = chart.valToPos(section.deadline, "y", true);
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.fillStyle = colour("ink");
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

const nearest = (chart, curves, section, left, top) => {
  let best = null;
  let distance = 40;
  for (const curve of curves) {
    for (const row of curve.rows) {
      const [x, y] = [chart.valToPos(row[section.x], "x"), chart.valToPos(row[curve.y], "y")];
      const away = section.shape === "columns" ? Math.abs(x - left) : Math.hypot(x - left, y - top);
      if (away < distance) [best, distance] = [row, away];
    }
  }
  return best;
};

const makeChart = (section, { column }, curves, holder) => {
  const colour = theme();
  const axis = { stroke: colour("soft"), font: "12px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("grid"), width: 1 };
  const xs = distinct(curves.flatMap((curve) => curve.rows.map((row) => row[section.x]))).sort((a, b) => a - b);
  const at = new Map(xs.map((x, index) => [x, index]));
  const data = curves.map((curve) => {
    const values = new Array(xs.length).fill(null);
    for (const row of curve.rows) values[at.get(row[section.x])] = row[curve.y];
    return values;
  });
  const isWhole = column[section.x].kind === "count";
  const step = xs.length > 1 ? Math.min(...xs.slice(1).map((x, index) => x - xs[index])) : 1;
  const side = section.shape === "columns" ? 0.6 * step : xs.length > 1 ? 0 : 0.5;
  const [low, high] = limits(section, column, curves);
  const y = section.is_log ? { distr: 3 } : { range: () => [low, high] };
  const show = (chart) => {
    const { left, top } = chart.cursor;
    const row = left >= 0 ? nearest(chart, curves, section, left, top) : null;
    const box = chart.over.getBoundingClientRect();
    const text = row ? describeRow(row, section.details.length ? section.details : [section.x, ...section.y], column) : "";
    showTip(text, { clientX: box.left + left, clientY: box.top + top });
    holder.dataset.at = row ? row[section.x] : "";
  };
  return new uPlot(
    {
      width: Math.max(holder.clientWidth, 160),
      height: 220,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: () => [xs[0] - side, xs[xs.length - 1] + side] }, y },
      axes: [
        { ...axis, grid: { show: false }, size: 34, space: 46, incrs: isWhole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] : undefined,
          values: (chart, ticks) => ticks.map((tick) => (section.is_log && tick === null ? "" : writeOnAxis(tick, column[section.x]))) },
        { ...axis, grid, size: 64, values: (chart, ticks) => ticks.map((tick) => (tick === null ? "" : writeOnAxis(tick, column[curves[0].y]))) },
      ],
      series: [{}, ...curves.map((curve, index) => seriesStyle(section, curve, index, colour))],
      hooks: { draw: [drawDeadline(section, colour)], setCursor: [show] },
    },
    [xs, ...data],
    holder,
  );
};

export const drawLine = (section, data) => {
  const curves = curvesOf(section, data.rows);
  const holder = el("div", { class: "curves", role: "img" });
  const names = [section.x, section.series, ...section.y, ...section.details];
  if (!curves.length) return frame(section, data, el("p", { class: "empty" }, "Nothing was measured yet."), names);
  const ends = [curves[curves.length - 1].rows[0], curves[curves.length - 1].rows.slice(-1)[0]];
  const { y } = curves[curves.length - 1];
  const said = ends.map((row) => `${write(row[y], data.column[y])} at ${data.column[section.x].title} ${write(row[section.x], data.column[section.x])}`);
  set(holder, { "aria-label": `${section.title}: from ${said[0]} to ${said[1]}` });
  holder.addEventListener("click", () => holder.dataset.at && pick(section.x, holder.dataset.at));
  charts.push({ section, data, curves, holder, chart: null });
  const label = (one) => (section.series ? one.name : data.column[one.y].title);
  const entries = section.bold === null
    ? curves.map((one, at) => [swatch(colourOf(indexOf(section, one, at))), `${label(one)}${indexOf(section, one, at) ? " (dashed)" : ""}`])
    : [[swatch("accent-fill"), section.bold], [swatch("soft-fill"), `each ${data.column[section.series].title}`]];
  const marks = curves.length > 1 ? legend(entries) : null;
  const over = el("p", { class: "over-axis" }, data.column[section.x].title);
  return frame(section, data, el("div", {}, marks, holder, over), names);
};

// Charts need the width of the page, and are drawn again when it or the colours change.
const drawCharts = () => {
  for (const one of charts) {
    if (one.chart) one.chart.destroy();
    one.chart = makeChart(one.section, one.data, one.curves, one.holder);
  }
};
let drawnWidth = 0;
export const watchCharts = () => {
  drawnWidth = document.documentElement.clientWidth;
  drawCharts();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  window.addEventListener("resize", () => {
    if (drawnWidth !== document.documentElement.clientWidth) drawCharts();
    drawnWidth = document.documentElement.clientWidth;
  });
};
