// Long tables are laid out once, when all of their rows are there.
document.documentElement.classList.add("loading");
addEventListener("DOMContentLoaded", () => document.documentElement.classList.remove("loading"));
try {
  const kept = localStorage.getItem("sentbed-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch {}
