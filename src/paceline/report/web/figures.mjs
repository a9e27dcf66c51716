// Lying bars, grids and Gantt charts, drawn as SVG in per cent of the width.
import { NONE, digits, percent, duration, write, writeOnAxis, writeInCell } from "./format.mjs";
import { set, el, svg, place, describeRow, distinct, MAX_NAMES, tipped, pickers, pick, frame, legend, swatch, colourOf, colourNumber } from "./elements.mjs";
import { charts, indexOf } from "./curves.mjs";

const ROW_PIXELS = 26;

// A label needs some room, and phones have little.
const mostTicks = () => Math.max(3, Math.min(8, Math.floor(window.innerWidth / 120)));
const niceTicks = (low, high, most = mostTicks()) => {
  const raw = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + 1e-9 * step; tick += step) ticks.push(tick);
  return ticks;
};
const timeTicks = (low, high) => {
  const unit = high - low > 7200 ? 3600 : high - low > 180 ? 60 : 1;
  return niceTicks(low / unit, high / unit).map((tick) => tick * unit);
};
const rowName = (name, row) => {
  const short = name.length > 16 ? `${name.slice(0, 15)}…` : name;
  const text = svg("text", { class: "row-name", x: -8, y: row * ROW_PIXELS + ROW_PIXELS / 2, dy: 4 }, short);
  return tipped(text, name);
};
const lanes = (section, rows) => distinct(rows.map((row) => row[section.row])).slice(0, MAX_NAMES);
const plot = (section, marks, numRows, style = "") =>
  el(
    "div",
    { class: `plot named ${style}` },
    svg(
      "svg",
      { role: "img", "aria-label": `${section.title}. ${section.caption}`, width: "100%", height: numRows * ROW_PIXELS + 4 },
      marks,
    ),
  );
const axisText = (x, text) => svg("text", { class: x > 0.97 ? "x last" : "x", x: place(x), y: "100%", dy: 16 }, text);

// --- lying bars ------------------------------------------------------------------------------------------------------
const KNOWN_PARTS = new Set(["wait", "download", "train", "upload", "working", "lost", "idle"]);
const partStyle = (name, index) => (KNOWN_PARTS.has(name) ? `part ${name}` : `part ${colourOf(index)}`);

const meanOf = (rows, name) => (rows.length ? rows.reduce((sum, row) => sum + (row[name] || 0), 0) / rows.length : 0);
// What a bar shows: the rows of one value of `pick`, or the mean of those that came to an end.
const barRows = (section, rows, view) => {
  if (view !== "mean") return rows.filter((row) => String(row[section.pick]) === view);
  const ended = section.end ? rows.filter((row) => row[section.end] !== null) : [];
  return ended.length ? ended : rows;
};

export const drawBars = (section, data) => {
  const { column, rows } = data;
  const names = lanes(section, rows);
  const byName = new Map(names.map((name) => [name, []]));
  for (const row of rows) if (byName.has(row[section.row])) byName.get(row[section.row]).push(row);
  const parts = section.parts.filter((part) => rows.some((row) => row[part] > 0));
  const kind = column[parts[0] || section.parts[0]];
  const total = (some) => parts.reduce((sum, part) => sum + meanOf(some, part), 0);
  const body = el("tbody");
  const heading = el("th", { scope: "col" });
  const shown = el("p", { class: "shown" });
  const busyTitle = section.deadline ? "busy" : "in all";

  const draw = (view) => {
    const chosen = names.map((name) => barRows(section, byName.get(name), view));
    const all = chosen.flat();
    const deadline = section.deadline ? meanOf(all, section.deadline) : null;
    const ends = section.end ? names.flatMap((name) => byName.get(name).filter((row) => row[section.end] !== null).map((row) => row[section.end] / row[section.deadline])) : [];
    const full = deadline ? deadline * Math.min(Math.max(1.02, ...ends) * 1.03, 1.5) : Math.max(...chosen.map(total), 1e-12) * 1.01;
    heading.replaceChildren(barAxis(deadline, full, kind));
    body.replaceChildren(...names.map((name, index) => barRow(name, chosen[index], { deadline, full, view })));
    const label = view === "mean" ? (section.pick ? `Mean of all ${column[section.pick].title}s` : "") : `${column[section.pick].title} ${view}`;
    shown.textContent = [label, deadline ? `deadline ${duration(deadline)}` : ""].filter(Boolean).join("; ");
    body.dataset.view = view;
  };
  const barAxis = (deadline, full, column) =>
    deadline
      ? svg("svg", { width: "100%", height: 18 }, svg("text", { x: 0, y: 14 }, "start"), svg("text", { class: "end", x: place(deadline / full), dx: 4, y: 14 }, "deadline"))
      : svg("svg", { width: "100%", height: 18 }, svg("text", { x: 0, y: 14 }, "0"), svg("text", { class: "end", x: "99%", y: 14 }, write(full / 1.01, column)));
  const barRow = (name, some, { deadline, full, view }) => {
    const marks = [];
    const said = [];
    let start = 0;
    let busy = 0;
    parts.forEach((part, index) => {
      const length = meanOf(some, part);
      if (!length) return;
      const text = `${column[part].title}: ${write(length, column[part])}`;
      const left = Math.min(start / full, 1);
      marks.push(tipped(svg("rect", { class: partStyle(part, index), x: place(left), width: place(Math.min((start + length) / full, 1) - left), y: 4, height: 20 }), `${name}\n${text}`));
      said.push(text);
      start += length;
      if (!section.idle.includes(part)) busy += length;
    });
    if (view === "mean" && section.end && deadline) {
      const ends = byName.get(name).filter((row) => row[section.end] !== null).map((row) => row[section.end] / row[section.deadline]);
      if (ends.length > 1) {
        const [first, last] = [Math.min(...ends), Math.max(...ends)];
        const line = svg("line", { class: "range", x1: place((first * deadline) / full), x2: place((last * deadline) / full), y1: "50%", y2: "50%" });
        marks.push(tipped(line, `earliest to latest: ${percent(first)} to ${percent(last)} of the deadline`));
      }
    }
    if (deadline) marks.push(svg("line", { class: "deadline", x1: place(deadline / full), x2: place(deadline / full), y1: 0, y2: "100%" }));
    const sum = some.length ? write(busy, kind) + (deadline ? ` · ${percent(busy / deadline)}` : "") : NONE;
    return el(
      "tr",
      { class: some.length ? null : "absent" },
      el("th", { scope: "row", title: name }, el("bdi", {}, name)),
      el("td", {}, svg("svg", { role: "img", "aria-label": `${name}: ${said.join(", ") || "nothing"}`, width: "100%", height: 28 }, marks)),
      el("td", { class: "number" }, sum),
    );
  };

  const marks = legend(parts.filter((part) => part !== "wait" || !parts.includes("idle")).map((part) => [swatch(partStyle(part, parts.indexOf(part))), column[part].title]));
  const table = el("table", { class: "bars" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, column[section.row].title), heading, el("th", { scope: "col", class: "number" }, busyTitle))), body);
  const values = section.pick ? distinct(rows.map((row) => row[section.pick])).sort((a, b) => a - b) : [];
  const drawing = el("div", {}, marks, values.length > 1 ? makePicker(section, column, values, draw) : null, shown, table);
  draw("mean");
  return frame(section, data, drawing, [section.pick, section.row, ...parts, section.deadline, section.end]);
};

const makePicker = (section, column, values, draw) => {
  const title = column[section.pick].title;
  const options = [el("option", { value: "mean" }, `mean of all ${title}s`), ...values.map((value) => el("option", { value }, `${title} ${value}`))];
  const select = el("select", { "aria-label": `Show ${title}` }, options);
  const button = (sign, by, label) => {
    const made = el("button", { type: "button", "aria-label": `${label} ${title}` }, sign);
    made.addEventListener("click", () => select.options[select.selectedIndex + by] && pick(section.pick, select.options[select.selectedIndex + by].value));
    return made;
  };
  const [earlier, later] = [button("‹", -1, "earlier"), button("›", 1, "later")];
  select.addEventListener("change", () => pick(section.pick, select.value));
  pickers.push((choice) => {
    const known = choice && choice.column === section.pick && [...select.options].some((one) => one.value === choice.value);
    select.value = known ? choice.value : "mean";
    earlier.disabled = select.selectedIndex === 0;
    later.disabled = select.selectedIndex === select.options.length - 1;
    draw(select.value);
  });
  return el("div", { class: "picker" }, el("span", {}, "Show"), select, earlier, later);
};

// --- grids -----------------------------------------------------------------------------------------------------------
const MAX_COLUMNS = 120;

export const drawGrid = (section, data) => {
  const { column, rows } = data;
  const names = lanes(section, rows);
  const value = column[section.value];
  const xs = rows.map((row) => row[section.x]);
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const step = Math.ceil((last - first + 1) / MAX_COLUMNS);
  const numColumns = Math.ceil((last - first + 1) / step);
  const known = rows.map((row) => row[section.value]).filter((one) => one !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const isBad = (row) => section.state !== null && section.bad.includes(row[section.state]);
  // With very many columns a cell stands for several, and shows the worst or highest of them.
  const worst = (a, b) => (isBad(a) !== isBad(b) ? (isBad(a) ? a : b) : (a[section.value] || 0) >= (b[section.value] || 0) ? a : b);
  const cells = new Map();
  for (const row of rows) {
    const key = `${Math.floor((row[section.x] - first) / step)} ${row[section.row]}`;
    cells.set(key, cells.has(key) ? worst(cells.get(key), row) : row);
  }
  const marks = names.map(rowName);
  let longest = 1;
  names.forEach((name, index) => {
    for (let at = 0; at < numColumns; at++) {
      const row = cells.get(`${at} ${name}`);
      if (!row) continue;
      const amount = row[section.value];
      const text = (amount === null ? "" : writeInCell(amount, value)) + (isBad(row) ? (amount === null ? "×" : "!") : "");
      longest = Math.max(longest, text.length);
      const shade = high > low ? ((amount || 0) - low) / (high - low) : 0.5;
      const mark = svg(
        "g",
        {},
        svg("rect", { class: isBad(row) ? "cell bad" : "cell", x: place(at / numColumns), width: place(1 / numColumns), y: index * ROW_PIXELS + 1, height: ROW_PIXELS - 2, rx: 4, "fill-opacity": isBad(row) ? null : (0.1 + 0.5 * shade).toFixed(2) }),
        svg("text", { class: "digits", x: place((at + 0.5) / numColumns), y: index * ROW_PIXELS + ROW_PIXELS / 2, dy: 4 }, text),
      );
      mark.addEventListener("click", () => pick(section.x, row[section.x]));
      marks.push(tipped(mark, () => describeRow(row, section.details, column)));
    }
  });
  for (const tick of niceTicks(first, last, 1.5 * mostTicks()).filter(Number.isInteger)) marks.push(axisText((Math.floor((tick - first) / step) + 0.5) / numColumns, String(tick)));
  const density = numColumns > 26 ? "bare" : longest * numColumns <= 26 ? "" : "wide";
  const drawing = el("div", {}, plot(section, marks, names.length, density), el("p", { class: "over-axis" }, column[section.x].title));
  const more = step > 1 ? { ...section, note: [section.note, `each cell is the highest of ${step}`].filter(Boolean).join("; ") } : section;
  return frame(more, data, drawing, [section.row, section.x, section.value, section.state]);
};

// --- Gantt -----------------------------------------------------------------------------------------------------------
export const drawGantt = (section, data) => {
  const { column, rows } = data;
  const names = lanes(section, rows);
  const lane = new Map(names.map((name, index) => [name, index]));
  const spans = rows.filter((row) => lane.has(row[section.row]));
  const colours = section.colour ? distinct(spans.map((row) => row[section.colour])) : [];
  const start = Math.min(...spans.map((row) => row[section.start]));
  const end = Math.max(...spans.map((row) => row[section.end]));
  const width = end - start || 1;
  const lookOf = (row) => (section.state && section.looks[row[section.state]]) || "full";
  const order = ["back", "full", "front", "hatched"];
  const marks = [];
  for (const tick of timeTicks(start, end)) {
    const x = (tick - start) / width;
    marks.push(svg("line", { class: "grid", x1: place(x), x2: place(x), y1: 0, y2: "100%" }), axisText(x, writeOnAxis(tick, column[section.start])));
  }
  marks.push(...names.map(rowName));
  for (const row of [...spans].sort((a, b) => order.indexOf(lookOf(a)) - order.indexOf(lookOf(b)))) {
    const look = lookOf(row);
    const [left, right] = [(row[section.start] - start) / width, (row[section.end] - start) / width];
    const isTall = look === "full" || look === "back";
    const top = lane.get(row[section.row]) * ROW_PIXELS;
    const index = section.colour ? colourNumber(section.colour, row[section.colour]) : 0;
    const box = svg("rect", { class: `span ${look} ${colourOf(index)}`, x: place(left), width: place(right - left), y: top + (isTall ? 2 : 14), height: isTall ? ROW_PIXELS - 4 : 9, rx: isTall ? 3 : 2 });
    const label = isTall && colours.length > 1 && right - left >= 0.02 ? svg("text", { class: `span-label ${look}`, x: place(left), dx: 4, y: top + 11 }, String(index + 1)) : null;
    marks.push(tipped(svg("g", {}, box, label), () => describeRow(row, section.details, column)));
  }
  const known = colours.length > 1 ? legend(colours.map((name) => [colourNumber(section.colour, name), name]).sort(([a], [b]) => a - b).map(([index, name]) => [swatch(colourOf(index), index + 1), String(name)])) : null;
  return frame(section, data, el("div", {}, known, plot(section, marks, names.length)), [section.row, section.start, section.end, section.colour, section.state]);
};
