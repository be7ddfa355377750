try {
  const kept = localStorage.getItem("sentbed-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch {}
