// A lying bar per name, made of parts end to end: of one round, or the mean of all.
import { distinct, isKnown } from "./content.mjs";
import { el, legend, partStyle, place, selectField, set, setText, svg, swatch } from "./elements.mjs";
import { NONE, duration, percent, write } from "./format.mjs";
import { pick, picked, pickers } from "./picking.mjs";
import { lanes } from "./plots.mjs";
import { tipped } from "./tips.mjs";

const meanOf = (rows, name) => (rows.length ? rows.reduce((sum, row) => sum + (row[name] || 0), 0) / rows.length : 0);
const endsOf = (section, rows) =>
  section.end ? rows.filter((row) => isKnown(row[section.end])).map((row) => row[section.end] / row[section.deadline]) : [];

/**
 * Return what a bar shows: the rows of one value of `pick`, or the mean of those that came to an end.
 * @param {Section} section
 * @param {Row[]} rows
 * @param {string} shown
 */
export const barRows = (section, rows, shown) => {
  if (shown !== "mean") return rows.filter((row) => String(row[section.pick]) === shown);
  const ended = section.end ? rows.filter((row) => isKnown(row[section.end])) : [];
  return ended.length ? ended : rows;
};

const barAxis = (deadline, full, column) => {
  const end = deadline ? { x: place(deadline / full), dx: 4 } : { x: "99%" };
  const text = svg("text", { class: "end", y: 14, ...end }, deadline ? "deadline" : write(full / 1.01, column));
  return svg("svg", { width: "100%", height: 18 }, svg("text", { x: 0, y: 14 }, deadline ? "start" : "0"), text);
};

const rangeLine = (ends, deadline, full) => {
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const [x1, x2] = [first, last].map((one) => place((one * deadline) / full));
  const line = svg("line", { class: "range", x1, x2, y1: "50%", y2: "50%" });
  return tipped(line, `earliest to latest: ${percent(first)} to ${percent(last)} of the deadline`);
};

const barRow = (section, column, parts, { name, chosen, ends }, { deadline, full }) => {
  const [marks, said] = [[], []];
  let [start, busy] = [0, 0];
  parts.forEach((part, index) => {
    const length = meanOf(chosen, part);
    if (!length) return;
    const text = `${column[part].title}: ${write(length, column[part])}`;
    const left = Math.min(start / full, 1);
    const width = place(Math.min((start + length) / full, 1) - left);
    const rect = svg("rect", { class: partStyle(part, index), x: place(left), width, y: 4, height: 20 });
    marks.push(tipped(rect, `${name}\n${text}`));
    said.push(text);
    start += length;
    if (!section.idle.includes(part)) busy += length;
  });
  if (ends.length > 1) marks.push(rangeLine(ends, deadline, full));
  const x = place(deadline / full);
  if (deadline) marks.push(svg("line", { class: "deadline", x1: x, x2: x, y1: 0, y2: "100%" }));
  const sum = chosen.length ? write(busy, column[parts[0]]) + (deadline ? ` · ${percent(busy / deadline)}` : "") : NONE;
  const label = `${name}: ${said.join(", ") || "nothing"}`;
  return el(
    "tr",
    { class: chosen.length ? null : "absent" },
    el("th", { scope: "row", title: name }, el("bdi", {}, name)),
    el("td", {}, svg("svg", { role: "img", "aria-label": label, width: "100%", height: 28 }, marks)),
    el("td", { class: "number" }, sum),
  );
};

/** A list of rounds to pick from, with steps to the earlier and the later one. */
const makePicker = (onPick) => {
  let column = "";
  const select = selectField("Show", [], (value) => pick(column, value));
  const step = (sign, by, label) => {
    const made = el("button", { type: "button", "aria-label": label }, sign);
    made.addEventListener("click", () => pick(column, select.options[select.selectedIndex + by].value));
    return made;
  };
  const [earlier, later] = [step("‹", -1, "earlier"), step("›", 1, "later")];
  const element = el("div", { class: "controls" }, el("span", {}, "Show"), select, earlier, later);
  const follow = (choice) => {
    const isHere = choice?.column === column && [...select.options].some((one) => one.value === choice.value);
    const shown = isHere ? choice.value : "mean";
    select.value = shown;
    earlier.disabled = select.selectedIndex <= 0;
    later.disabled = select.selectedIndex === select.options.length - 1;
    onPick(shown);
  };
  pickers.add(follow);
  return {
    element,
    update(section, data) {
      const values = section.pick ? distinct(data.rows.map((row) => row[section.pick])).sort((a, b) => a - b) : [];
      column = section.pick;
      element.hidden = values.length < 2;
      if (!element.hidden && select.options.length !== values.length + 1) {
        const { title } = data.column[column];
        const option = (value, text) => el("option", { value }, text);
        const options = values.map((value) => option(value, `${title} ${value}`));
        select.replaceChildren(option("mean", `mean of all ${title}s`), ...options);
        set(select, { "aria-label": `Show ${title}` });
      }
      follow(picked());
    },
  };
};

/** @returns {View} */
export const barsView = () => {
  const [keys, said] = [el("div"), el("p", { class: "shown" })];
  const [heading, body] = [el("th", { scope: "col" }), el("tbody")];
  const [nameTitle, busyTitle] = [el("th", { scope: "col" }), el("th", { scope: "col", class: "number" })];
  const table = el("table", { class: "bars" }, el("thead", {}, el("tr", {}, nameTitle, heading, busyTitle)), body);
  let section, data;

  const draw = (shown) => {
    const { column, rows } = data;
    const parts = section.parts.filter((part) => rows.some((row) => row[part] > 0));
    const bars = lanes(section, rows).map((name) => {
      const own = rows.filter((row) => row[section.row] === name);
      return { name, chosen: barRows(section, own, shown), ends: endsOf(section, own) };
    });
    const total = ({ chosen }) => parts.reduce((sum, part) => sum + meanOf(chosen, part), 0);
    const deadline = section.deadline ? meanOf(bars.flatMap((bar) => bar.chosen), section.deadline) : 0;
    const ends = bars.flatMap((bar) => bar.ends);
    const full = deadline
      ? deadline * Math.min(Math.max(1.02, ...ends) * 1.03, 1.5)
      : Math.max(...bars.map(total), 1e-12) * 1.01;
    const of = (bar) => ({ ...bar, ends: shown === "mean" && deadline ? bar.ends : [] });
    const isBoth = parts.includes("idle");
    const entries = parts.filter((part) => part !== "wait" || !isBoth);
    keys.replaceChildren(legend(entries.map((part) => [swatch(partStyle(part, parts.indexOf(part))), column[part].title])));
    setText(nameTitle, column[section.row].title);
    setText(busyTitle, section.deadline ? "busy" : "in all");
    heading.replaceChildren(barAxis(deadline, full, column[parts[0] || section.parts[0]]));
    body.replaceChildren(...bars.map((bar) => barRow(section, column, parts, of(bar), { deadline, full })));
    const title = section.pick ? column[section.pick].title : "";
    const label = shown === "mean" ? title && `Mean of all ${title}s` : `${title} ${shown}`;
    setText(said, [label, deadline ? `deadline ${duration(deadline)}` : ""].filter(Boolean).join("; "));
    body.dataset.view = shown;
  };
  const picker = makePicker(draw);
  return {
    element: el("div", {}, keys, picker.element, said, table),
    update(...given) {
      [section, data] = given;
      picker.update(section, data);
    },
  };
};
