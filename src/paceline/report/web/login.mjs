// The form that asks for a token; one that came in the address is sent by itself.
import { el, setText } from "./elements.mjs";

/** Take the token out of the address, so that neither the screen nor the history keeps it. */
export const takeToken = () => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", location.pathname + location.search);
  return token;
};

const send = async (token) => {
  try {
    const response = await fetch("page/session", { method: "POST", headers: { authorization: `Bearer ${token}` } });
    if (response.status === 204) return "";
    return String((await response.json()).error);
  } catch {
    return "The server does not answer; try again.";
  }
};

/**
 * @param {Element} root
 * @param {string | null} token  that came in the address
 * @param {string | boolean} why  what is wrong with the token that the browser has, if it has one
 */
export const makeLogin = (root, token, why) => {
  const field = el("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
  const button = el("button", { type: "submit", class: "main" }, "Open");
  const said = el("p", { class: "error", role: "alert" });
  const form = el("form", { class: "card login" }, el("label", { for: "token" }, "Token"), field, button, said);
  root.replaceChildren(el("header", {}, el("p", { class: "over" }, "Paceline"), el("h1", {}, "Log in")), form);
  document.title = "Log in – Paceline";
  const submit = async (given) => {
    button.disabled = true;
    setText(said, "");
    const error = await send(given);
    if (!error) return location.reload();
    button.disabled = false;
    setText(said, error);
    return field.select();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(field.value.trim());
  });
  if (typeof why === "string") setText(said, why);
  if (token) submit(token);
  else field.focus();
};
