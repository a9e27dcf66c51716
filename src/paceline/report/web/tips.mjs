// A box beside the pointer says what is under it; by keyboard, it says what the arrow keys have come to.
import { el } from "./elements.mjs";

const tips = new WeakMap();
export const tipBox = el("div", { class: "tip-box", hidden: true, role: "status" });

/**
 * @param {string} text  nothing hides the box
 * @param {{clientX: number, clientY: number}} at
 */
export const showTip = (text, at = { clientX: 0, clientY: 0 }) => {
  tipBox.hidden = !text;
  if (!text) return;
  tipBox.textContent = text;
  const { offsetWidth: width, offsetHeight: height } = tipBox;
  const left = Math.min(at.clientX + 14, document.documentElement.clientWidth - width - 6);
  const top = at.clientY - height - 12;
  tipBox.style.left = `${Math.max(left, 6)}px`;
  tipBox.style.top = `${top < 6 ? at.clientY + 18 : top}px`;
};

/**
 * Give a mark a tip.
 * @template {Element} T
 * @param {T} element
 * @param {string | (() => string)} text
 * @returns {T}
 */
export const tipped = (element, text) => {
  element.classList.add("tip");
  tips.set(element, text);
  return element;
};

/** @param {Element | null} mark */
const tipOf = (mark) => {
  const text = mark ? tips.get(mark) : "";
  return typeof text === "function" ? text() : text;
};

const hover = (event) => {
  const mark = event.target.closest?.(".tip");
  if (!mark && event.target.closest?.(".curves")) return; // curves show their own
  showTip(tipOf(mark), event);
};

/** Show tips under the pointer, on a mouse as on a touch screen. */
export const watchPointer = () => {
  document.body.append(tipBox);
  document.addEventListener("pointermove", hover);
  document.addEventListener("pointerdown", hover);
  document.addEventListener("scroll", () => showTip(""), { passive: true });
};

/**
 * Let the arrow keys go from mark to mark of a drawing that can be focused; Enter clicks, Escape hides the tip.
 * @param {HTMLElement} holder
 */
export const walkable = (holder) => {
  let at = -1;
  const leave = () => {
    holder.querySelector(".walked")?.classList.remove("walked");
    showTip("");
  };
  holder.addEventListener("blur", leave);
  holder.addEventListener("keydown", (event) => {
    const marks = [...holder.querySelectorAll(".tip")];
    if (event.key === "Enter") marks[at]?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    if (event.key === "Escape") leave();
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: marks.length - 1 }[event.key];
    if (next === undefined || !marks.length) return;
    event.preventDefault();
    at = Math.min(Math.max(next, 0), marks.length - 1);
    leave();
    marks[at].classList.add("walked");
    const box = marks[at].getBoundingClientRect();
    showTip(tipOf(marks[at]), { clientX: box.left + box.width / 2, clientY: box.top });
  });
  return holder;
};
