// A page that `sentbed study watch` serves is loaded again when the study has changed, as the reader left it.
// In a block: scripts of a page share their outer names.
{
  const SECONDS = 3;
  const place = "sentbed-place";
  const progress = document.createElement("pre");
  progress.className = "progress";
  document.querySelector("header").append(progress);

  const details = [...document.querySelectorAll("details")];
  const kept = JSON.parse(sessionStorage.getItem(place) ?? "null");
  sessionStorage.removeItem(place);
  if (kept) {
    details.forEach((part, number) => { part.open = kept.open[number] ?? part.open; });
    scrollTo(0, kept.top);
  }

  const loadAgain = () => {
    const open = details.map((part) => part.open);
    sessionStorage.setItem(place, JSON.stringify({ top: scrollY, open }));
    location.reload();
  };

  const follow = async () => {
    try {
      const state = await (await fetch("/state", { cache: "no-store" })).json();
      if (state.fingerprint !== "FINGERPRINT") return loadAgain();
      progress.textContent = state.progress.join("\n");
    } catch {
      progress.textContent = "not renewed: `sentbed study watch` does not answer";
    }
    setTimeout(follow, 1000 * SECONDS);
  };
  follow();
}
