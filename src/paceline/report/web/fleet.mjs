// The fleet now: a lane per device against its deadline. Only the rows in sight are elements, so that thousands are
// smooth, and what goes on grows by the browser's clock.
import { describeRow } from "./content.mjs";
import { el, legend, partStyle, place, searchField, selectField, set, setText, svg, swatch } from "./elements.mjs";
import { duration, write, writeOnAxis } from "./format.mjs";
import { arrangeLanes, countStates, laneOf, secondsShown } from "./lanes.mjs";
import { niceTicks } from "./plots.mjs";
import { tipped } from "./tips.mjs";

const ROW = 30; // pixels
const SPARE = 6; // rows made above and below those in sight
const TICK_MILLISECONDS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 200;
const EXPECTED = "M0 -5L4 0L0 5L-4 0Z"; // a diamond
const ARRIVAL = "M-5 9L0 2L5 9Z"; // an arrow head from below

const SIGN = { class: "swatch", width: 18, height: 18, viewBox: "-9 -9 18 18", "aria-hidden": "true" };
const sign = (style, path) => svg("svg", SIGN, svg("path", { class: style, d: path }));
const cellOf = (style, role, ...inner) => el("span", { class: style, role }, ...inner);

/** A row of the list, which shows one device after another as the list scrolls. */
const makeRow = (section, id) => {
  const name = el("bdi");
  const rects = [...section.parts, ""].map(() => svg("rect", { y: 6, height: 18 }));
  const line = svg("line", { class: "deadline", y1: 1, y2: ROW - 1 });
  // A mark is placed by an inner picture, since only a picture's x may be in per cent.
  const [expected, arrival] = [["expected", EXPECTED], ["arrival", ARRIVAL]].map(([style, path]) =>
    svg("svg", { overflow: "visible", y: ROW / 2 }, svg("path", { class: style, d: path })),
  );
  const picture = svg("svg", { width: "100%", height: ROW, "aria-hidden": "true" }, rects, line, expected, arrival);
  const counts = section.counts.map(() => cellOf("count", "gridcell"));
  const state = el("span", { class: "word" });
  const cells = [cellOf("name", "rowheader", name), cellOf("track", "gridcell", picture), ...counts];
  const element = el("div", { role: "row", class: "lane", id }, cells, cellOf("standing", "gridcell", state));
  const mark = (one, seconds, full) => set(one, { x: place((seconds ?? 0) / full), display: seconds === null ? "none" : null });
  return {
    element,
    lane: null,
    grow(lane, full) {
      rects.forEach((rect, index) => {
        const span = lane.spans[index];
        if (!span) return void set(rect, { display: "none" });
        const width = place((Math.min(span.end, full) - Math.min(span.start, full)) / full);
        const style = partStyle(span.part, section.parts.indexOf(span.part));
        set(rect, { class: style, x: place(span.start / full), width, display: null });
      });
    },
    show(lane, index, full, column, isSelected) {
      this.lane = lane;
      element.style.transform = `translateY(${index * ROW}px)`;
      set(element, { "aria-rowindex": index + 2, "aria-selected": String(isSelected) });
      element.classList.toggle("selected", isSelected);
      setText(name, lane.name);
      setText(state, lane.state);
      state.className = lane.isBad ? "word bad" : "word";
      counts.forEach((cell, at) => setText(cell, write(lane.row[section.counts[at]], column[section.counts[at]])));
      this.grow(lane, full);
      const x = place((lane.deadline ?? 0) / full);
      set(line, { x1: x, x2: x, display: lane.deadline === null ? "none" : null });
      mark(expected, lane.expected, full);
      mark(arrival, lane.arrival, full);
      tipped(element, () => describeLane(section, lane, column));
    },
  };
};

const describeLane = (section, lane, column) => {
  const { row, expected, arrival } = lane;
  const lines = [describeRow(row, section.details.length ? section.details : [section.row, section.state], column)];
  if (expected !== null) lines.push(`expected: ${duration(expected)}`);
  if (arrival !== null) lines.push(`arrived: ${duration(arrival)}`);
  if (expected !== null && arrival !== null) {
    lines.push(`${duration(Math.abs(arrival - expected))} ${arrival > expected ? "later" : "earlier"} than expected`);
  }
  if (lane.deadline !== null) lines.push(`deadline: ${duration(lane.deadline)}`);
  return lines.join("\n");
};

const drawLegend = (section, column) =>
  legend([
    ...section.parts.map((part, index) => [swatch(partStyle(part, index)), column[part].title.replace(/ seconds$/, "")]),
    ...(section.deadline ? [[sign("deadline", "M0 -9V9"), "deadline"]] : []),
    ...(section.expected ? [[sign("expected", EXPECTED), "expected"]] : []),
    ...(section.arrival ? [[sign("arrival", "M-5 4L0 -3L5 4Z"), "arrived"]] : []),
  ]);

/** @returns {View} */
export const fleetView = () => {
  const choice = { sort: "slowest", isTroubleFirst: true, text: "" };
  const choose = (changes) => {
    Object.assign(choice, changes);
    if (section) draw();
  };
  const search = searchField("Filter by name or state", (text) => choose({ text }));
  const sort = selectField("Sort by", ["slowest", "name", "state"].map((one) => [one, one]), (value) => choose({ sort: value }));
  const trouble = el("input", { type: "checkbox", checked: true });
  trouble.addEventListener("change", () => choose({ isTroubleFirst: trouble.checked }));
  const labels = [el("label", {}, "sort by ", sort), el("label", {}, trouble, " trouble first")];
  const controls = el("div", { class: "controls" }, search, labels);
  const [states, keys] = [el("div", { class: "chips", role: "group", "aria-label": "States" }), el("div")];
  const ticks = svg("svg", { width: "100%", height: 20, "aria-hidden": "true" });
  const head = el("div", { class: "lane head", role: "row" });
  const body = el("div", { class: "lanes", role: "rowgroup" });
  const list = el("div", { class: "fleet", role: "grid", tabindex: 0 }, head, body);
  const said = el("p", { class: "shown selected-device", role: "status" });
  const id = `fleet-${Math.random().toString(36).slice(2)}`;
  /** @type {any[]} */
  let rows = [];
  let section, data, page, lanes, shown, full, timer;
  let selected = "";

  const drawHead = () => {
    const { column } = data;
    const title = (style, name) => cellOf(style, "columnheader", column[name].title);
    const track = set(cellOf("track", "columnheader", ticks), { "aria-label": "seconds since the round opened" });
    const counts = section.counts.map((name) => title("count", name));
    head.replaceChildren(title("name", section.row), track, ...counts, title("standing", section.state));
    keys.replaceChildren(drawLegend(section, column));
    set(list, { "aria-label": section.title });
    rows = [];
    body.replaceChildren();
  };
  const drawTicks = () => {
    const column = { kind: /** @type {"seconds"} */ ("seconds"), unit: "" };
    const where = (tick) => ({ class: tick ? "x" : "x first", x: place(tick / full), y: 14 });
    const text = (tick) => svg("text", where(tick), writeOnAxis(tick, column));
    ticks.replaceChildren(...niceTicks(0, full * 0.97, list.clientWidth < 560 ? 2 : 5).map(text));
  };
  const drawStates = () => {
    const chips = countStates(lanes).map(({ state, isBad, count }) => {
      const isChosen = String(choice.text === state.toLowerCase());
      const how = { type: "button", class: isBad ? "chip bad" : "chip", "data-state": state, "aria-pressed": isChosen };
      return el("button", how, el("b", {}, count.toLocaleString("en-US")), ` ${state}`);
    });
    const focused = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.state;
    const hadFocus = states.contains(document.activeElement);
    const devices = lanes.length === 1 ? "device" : "devices";
    states.replaceChildren(el("span", {}, `${lanes.length.toLocaleString("en-US")} ${devices}`), ...chips);
    if (hadFocus) chips.find((chip) => chip.dataset.state === focused)?.focus();
  };
  const rowsInSight = () => {
    const first = Math.max(Math.floor(list.scrollTop / ROW) - SPARE, 0);
    const last = Math.min(first + Math.ceil(list.clientHeight / ROW) + 2 * SPARE, shown.length);
    return [first, last];
  };
  const drawRows = () => {
    const [first, last] = rowsInSight();
    while (rows.length < last - first) {
      const row = makeRow(section, `${id}-${rows.length}`);
      rows.push(row);
      body.append(row.element);
    }
    rows.forEach((row, index) => {
      const lane = index < last - first ? shown[first + index] : null;
      row.element.hidden = !lane;
      row.lane = lane;
      if (lane) row.show(lane, first + index, full, data.column, lane.name === selected);
    });
    const active = rows.find((row) => row.lane?.name === selected);
    set(list, { "aria-activedescendant": active ? active.element.id : null });
  };
  const draw = () => {
    const now = page.now();
    lanes = data.rows.map((row) => laneOf(section, row, now));
    shown = arrangeLanes(lanes, choice);
    full = secondsShown(lanes);
    drawTicks();
    drawStates();
    set(list, { "aria-rowcount": shown.length + 1 });
    body.style.height = `${shown.length * ROW}px`;
    drawRows();
    const lane = lanes.find((one) => one.name === selected);
    const nothing = shown.length ? "" : "No device matches.";
    setText(said, lane ? describeLane(section, lane, data.column).replaceAll("\n", " · ") : nothing);
    said.hidden = !said.textContent;
  };
  const grow = () => {
    if (document.hidden) return;
    const now = page.now();
    for (const row of rows) if (row.lane?.isRunning) row.grow(laneOf(section, row.lane.row, now), full);
  };
  const select = (index) => {
    if (!shown[index]) return;
    selected = shown[index].name;
    const [top, bottom] = [index * ROW, (index + 1) * ROW - list.clientHeight + head.offsetHeight];
    if (list.scrollTop > top || list.scrollTop < bottom) list.scrollTop = list.scrollTop > top ? top : bottom;
    draw();
  };
  states.addEventListener("click", (event) => {
    const state = /** @type {HTMLElement} */ (/** @type {Element} */ (event.target).closest(".chip"))?.dataset.state;
    if (state === undefined) return;
    search.value = choice.text === state.toLowerCase() ? "" : state;
    choose({ text: search.value.toLowerCase() });
  });
  list.addEventListener("scroll", () => requestAnimationFrame(() => shown && drawRows()), { passive: true });
  list.addEventListener("click", (event) => {
    const row = rows.find((one) => one.element.contains(event.target));
    if (row?.lane) select(shown.indexOf(row.lane));
  });
  list.addEventListener("keydown", (event) => {
    const at = shown.findIndex((lane) => lane.name === selected);
    const jump = Math.max(Math.floor(list.clientHeight / ROW) - 1, 1);
    const last = shown.length - 1;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: jump, PageUp: -jump, Home: -at, End: last - at }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    select(Math.min(Math.max(at + by, 0), last));
  });
  new ResizeObserver(() => shown && drawRows()).observe(list);
  return {
    element: el("div", {}, controls, states, keys, list, said),
    update(...given) {
      const isNew = section !== given[0];
      [section, data, page] = given;
      if (isNew) drawHead();
      draw();
      clearInterval(timer);
      if (page.content.state === "running" && page.content.clock === "real") timer = setInterval(grow, TICK_MILLISECONDS);
    },
  };
};
