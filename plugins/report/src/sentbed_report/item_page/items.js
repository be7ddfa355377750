const content = JSON.parse(document.getElementById("content").textContent);
const selects = { first: document.getElementById("first"), second: document.getElementById("second") };
const SHOWN = 20;

const number = (value, digits = content.digits) =>
  value === null || !Number.isFinite(value) ? "–" : value.toFixed(digits).replace("-", "−");
const signed = (value, digits) => (value > 0 ? "+" : "") + number(value, digits);

const row = (table, texts, tag = "td") => {
  const line = table.insertRow();
  texts.forEach((text, place) => {
    const cell = document.createElement(place === 0 ? "th" : tag);
    cell.textContent = text;
    if (place > 0) cell.className = "n";
    line.append(cell);
  });
};

const show = () => {
  const [first, second] = [content.cells[selects.first.value], content.cells[selects.second.value]];
  const shares = second.shares.map((share, place) => share - first.shares[place]);
  document.getElementById("difference").textContent =
    `${second.name} minus ${first.name}: ${signed(second.score - first.score)}`;
  const items = document.getElementById("items");
  items.replaceChildren();
  row(items, ["item", "gold", first.name, second.name, "share"], "th");
  const order = shares.map((_, place) => place).sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a]));
  for (const place of order.slice(0, SHOWN)) {
    const gold = content.gold === null ? "–" : String(content.gold[place]);
    row(items, [String(place), gold, number(first.predictions[place], 4), number(second.predictions[place], 4), signed(shares[place], content.digits + 2)]);
  }
  const rest = shares.length - SHOWN;
  const left = [];
  if (rest > 0) left.push(`The ${SHOWN} items with the largest shares of ${shares.length.toLocaleString("en")}.`);
  if (content.left > 0) left.push(`${content.left} more cells have no place on this page: the best have, and the baseline.`);
  document.getElementById("left").textContent = left.join(" ");
};

content.cells.forEach((cell, place) => {
  for (const select of Object.values(selects)) select.add(new Option(cell.name, place));
});
const indexOfCell = (name, otherwise) => {
  const place = content.cells.findIndex((cell) => cell.name === name);
  return place < 0 ? otherwise : place;
};
const choose = () => {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const second = indexOfCell(wanted.get("second"), content.cells.length > 1 ? 1 : 0);
  const baseline = indexOfCell(content.baseline, 0);
  const other = baseline === second ? (second === 0 ? content.cells.length - 1 : 0) : baseline;
  selects.second.value = second;
  selects.first.value = indexOfCell(wanted.get("first"), other);
  show();
};
for (const select of Object.values(selects)) select.addEventListener("change", show);
addEventListener("hashchange", choose);
choose();
