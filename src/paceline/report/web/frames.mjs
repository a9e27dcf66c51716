// Frames of sections: a title, a note, the drawing, the sentence below it, and its numbers as a table.
import { ariaSort, compareValues, distinct, nextSort } from "./content.mjs";
import { el, set, setText } from "./elements.mjs";
import { write } from "./format.mjs";

const MAX_ROWS = 200;

/**
 * Make a table whose rows are sorted by a click on a heading; sort, scroll and focus outlast changes of its rows.
 * @param {string} label
 */
export const makeTable = (label) => {
  const [head, body, foot] = [el("thead"), el("tbody"), el("tfoot")];
  const table = el("table", {}, head, body, foot);
  const element = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  let [shown, choice] = ["", { column: "", direction: 1 }];
  /** @type {{data: Data, names: string[], total: any[]}} */
  let now;

  const style = (name) => {
    const { kind } = now.data.column[name];
    return { class: kind === "text" || kind === "bool" ? kind : "number" };
  };
  const heading = (name) => {
    const button = el("button", { type: "button" }, now.data.column[name].title);
    button.addEventListener("click", () => {
      choice = nextSort(choice, name);
      draw();
    });
    return el("th", { scope: "col", ...style(name) }, button);
  };
  const cell = (row, name, index) => {
    const text = write(row[name], now.data.column[name]);
    return index ? el("td", style(name), text) : el("th", { scope: "row", ...style(name) }, el("bdi", {}, text));
  };
  const draw = () => {
    const { data, names, total } = now;
    if (shown !== names.join()) {
      shown = names.join();
      head.replaceChildren(el("tr", {}, names.map(heading)));
      table.classList.toggle("many", names.length > 11);
    }
    [...head.rows[0].cells].forEach((one, index) => {
      set(one, { "aria-sort": ariaSort(choice, names[index]) });
    });
    const { column, direction } = choice;
    const rows = column ? [...data.rows].sort((a, b) => compareValues(a[column], b[column], direction)) : data.rows;
    const line = (row) => el("tr", {}, names.map((name, index) => cell(row, name, index)));
    body.replaceChildren(...rows.slice(0, MAX_ROWS).map(line));
    const sum = (name, index) => el("td", style(name), total[index] === "" ? "" : write(total[index], data.column[name]));
    foot.replaceChildren(...(total.length ? [el("tr", {}, names.map(sum))] : []));
  };
  return {
    element,
    /**
     * @param {Data} data
     * @param {string[]} names  columns to show
     * @param {any[]} total  the last row, if any
     */
    update(data, names, total = []) {
      now = { data, names, total };
      draw();
    },
  };
};

/** @returns {View} */
export const tableView = () => {
  let table;
  const element = el("div");
  return {
    element,
    update(section, data) {
      table ??= makeTable(section.title);
      if (!table.element.isConnected) element.replaceChildren(table.element);
      table.update(data, section.columns.length ? section.columns : Object.keys(data.column), section.total);
    },
  };
};

/** @returns {View} */
export const tilesView = () => {
  const element = el("dl", { class: "tiles" });
  return {
    element,
    update(section, { column, rows }) {
      const textsOf = ({ column: name, note }) => [column[name].title, write(rows[0]?.[name], column[name]), note];
      const tiles = section.tiles.map(textsOf);
      if (element.children.length !== tiles.length) {
        element.replaceChildren(...tiles.map(() => el("div", { class: "card" }, el("dt"), el("dd", {}, el("b"), el("span")))));
      }
      tiles.forEach((texts, index) => {
        const [dt, b, span] = element.children[index].querySelectorAll("dt, b, span");
        [dt, b, span].forEach((one, place) => setText(one, texts[place]));
      });
    },
  };
};

/**
 * Frame a drawing; `update` keeps what the reader opened.
 * @param {Section} first
 * @param {View} view
 * @param {(section: Section) => (string | null)[]} shownColumns  those that its numbers have
 */
export const makeFrame = (first, view, shownColumns) => {
  const isTable = first.type === "table";
  const [title, note, sentence] = [el("b"), el("span"), el("p", { class: "sentence" })];
  const caption = el(isTable ? "div" : "figcaption", { class: "heading" }, title, note);
  const numbers = el("details", {}, el("summary", {}, "Numbers"));
  const element = el(
    isTable ? "div" : "figure",
    { class: isTable ? "card table" : `card figure-${first.type}`, "aria-label": isTable ? null : first.title },
    ...[caption, view.element, sentence, isTable ? null : numbers],
  );
  let table, now;
  const drawNumbers = () => {
    if (!numbers.open || !now) return;
    const { section, data } = now;
    if (!table) numbers.append((table = makeTable(section.title)).element);
    table.update(data, distinct(shownColumns(section).filter((name) => name && data.column[name])));
  };
  numbers.addEventListener("toggle", drawNumbers);
  return {
    element,
    /** @type {View["update"]} */
    update(section, data, page) {
      now = { section, data };
      setText(title, isTable && section.title === section.group ? "" : section.title);
      setText(note, section.note);
      setText(sentence, section.caption);
      caption.hidden = !title.textContent && !section.note;
      sentence.hidden = !section.caption;
      view.update(section, data, page);
      drawNumbers();
    },
  };
};
