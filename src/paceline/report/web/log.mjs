// What happened, in plain words, the newest first.
import { el, searchField, setText } from "./elements.mjs";
import { write } from "./format.mjs";

const MAX_LINES = 300;

/** @returns {View} */
export const logView = () => {
  const list = el("ol", { class: "log", role: "log", tabindex: 0, "aria-live": "off" });
  const more = el("p", { class: "shown" });
  let text = "";
  let section, data;
  const draw = () => {
    const { column, rows } = data;
    const lines = rows.map((row) => [write(row[section.at], column[section.at]), String(row[section.text])]).reverse();
    const found = lines.filter((line) => line.join(" ").toLowerCase().includes(text));
    const [top, height] = [list.scrollTop, list.scrollHeight];
    const item = ([at, what]) => el("li", {}, el("time", {}, at), el("bdi", {}, what));
    list.replaceChildren(...found.slice(0, MAX_LINES).map(item));
    if (top) list.scrollTop = top + list.scrollHeight - height; // what is being read stays where it is
    const rest = found.length - MAX_LINES;
    const nothing = text ? "Nothing matches." : "Nothing happened yet.";
    setText(more, rest > 0 ? `and ${rest.toLocaleString("en-US")} earlier` : found.length ? "" : nothing);
    more.hidden = !more.textContent;
  };
  const search = searchField("Filter", (typed) => {
    text = typed;
    draw();
  });
  return {
    element: el("div", {}, el("div", { class: "controls" }, search), list, more),
    update(...given) {
      [section, data] = given;
      list.setAttribute("aria-label", section.title);
      draw();
    },
  };
};
