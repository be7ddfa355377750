const content = JSON.parse(document.getElementById("content").textContent);
const selects = { first: document.getElementById("first"), second: document.getElementById("second") };
const SHOWN = 200;
const BINS = 5;

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

// The sum of shares in a slice, with its standard error if the items were drawn.
const slice = (shares, places) => {
  const values = places.map((place) => shares[place]);
  const sum = values.reduce((total, value) => total + value, 0);
  const mean = sum / values.length;
  const squares = values.reduce((total, value) => total + (value - mean) ** 2, 0);
  const error = values.length > 1 ? Math.sqrt((squares * values.length) / (values.length - 1)) : NaN;
  return { sum, error };
};

const slices = () => {
  const size = content.cells[0].shares.length;
  const all = [...Array(size).keys()];
  const parts = [["all items", all]];
  if (content.gold !== null) {
    const order = [...all].sort((a, b) => content.gold[a] - content.gold[b]);
    const distinct = [...new Set(content.gold)].sort((a, b) => a - b);
    if (distinct.length <= BINS) {
      for (const value of distinct) parts.push([`gold ${value}`, all.filter((place) => content.gold[place] === value)]);
    } else {
      for (let bin = 0; bin < BINS; bin++) {
        const places = order.slice(Math.round((bin * size) / BINS), Math.round(((bin + 1) * size) / BINS));
        const ends = [content.gold[places[0]], content.gold[places[places.length - 1]]];
        parts.push([`gold ${ends[0]} to ${ends[1]}`, places]);
      }
    }
  }
  if (content.groups !== null) {
    for (const group of [...new Set(content.groups)].sort((a, b) => a - b))
      parts.push([`source ${group + 1}`, all.filter((place) => content.groups[place] === group)]);
  }
  return parts;
};
const parts = slices();

const show = () => {
  const [first, second] = [content.cells[selects.first.value], content.cells[selects.second.value]];
  const shares = second.shares.map((share, place) => share - first.shares[place]);
  document.getElementById("difference").textContent =
    `${second.name} less ${first.name}: ${signed(second.score - first.score)}`;
  const table = document.getElementById("slices");
  table.replaceChildren();
  row(table, ["slice", "items", "share in the difference", "95 % interval"], "th");
  for (const [name, places] of parts) {
    const { sum, error } = slice(shares, places);
    const reach = 1.96 * error;
    row(table, [name, places.length.toLocaleString("en"), signed(sum), `${number(sum - reach)} to ${number(sum + reach)}`]);
  }
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
const placeOf = (name, otherwise) => {
  const place = content.cells.findIndex((cell) => cell.name === name);
  return place < 0 ? otherwise : place;
};
const choose = () => {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const second = placeOf(wanted.get("second"), content.cells.length - 1);
  const baseline = placeOf(content.baseline, 0);
  const other = baseline === second ? (second === 0 ? content.cells.length - 1 : 0) : baseline;
  selects.second.value = second;
  selects.first.value = placeOf(wanted.get("first"), other);
  show();
};
for (const select of Object.values(selects)) select.addEventListener("change", show);
addEventListener("hashchange", choose);
choose();
