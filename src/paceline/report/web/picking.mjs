// One round can be picked, by a click or by the address (#round=3), and all figures follow.

/** @type {Set<(choice: {column: string, value: string} | null) => void>} */
export const pickers = new Set();

export const picked = () => {
  const found = location.hash.match(/^#(\w+)=(\w+)$/);
  return found ? { column: found[1], value: found[2] } : null;
};

const showPicked = () => {
  const choice = picked();
  for (const update of pickers) update(choice);
};

/**
 * @param {string} column
 * @param {any} value
 */
export const pick = (column, value) => {
  history.replaceState(null, "", `#${column}=${value}`);
  showPicked();
};
window.addEventListener("hashchange", showPicked);
