// In an open tab: the number of what needs approval in the title, and a sound (off by default) when there is more.

const SOUND = "handrail-sound";
const counter = document.querySelector("[data-waiting-count]");
const plain = document.title;
let before = null;

function count() {
  return Number(counter?.textContent.trim() || 0);
}

function mark() {
  const now = count();
  document.title = now ? `(${now}) ${plain}` : plain;
  const badge = now ? navigator.setAppBadge?.(now) : navigator.clearAppBadge?.();
  badge?.catch(() => {});
  if (before !== null && now > before && localStorage.getItem(SOUND) === "on") ring();
  before = now;
}

function ring() {
  const audio = new AudioContext();
  const tone = audio.createOscillator();
  const volume = audio.createGain();
  tone.frequency.value = 660;
  volume.gain.setValueAtTime(0.08, audio.currentTime);
  volume.gain.exponentialRampToValueAtTime(0.001, audio.currentTime + 0.4);
  tone.connect(volume).connect(audio.destination);
  tone.onended = () => audio.close();
  tone.start();
  tone.stop(audio.currentTime + 0.4);
  document.body.dispatchEvent(new CustomEvent("rang"));
}

for (const box of document.querySelectorAll("[data-sound-switch]")) {
  const show = () => {
    const chosen = localStorage.getItem(SOUND) === "on" ? "on" : "off";
    for (const button of box.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.value === chosen));
  };
  box.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    localStorage.setItem(SOUND, button.value);
    show();
    if (button.value === "on") ring();
  });
  show();
}

if (counter) {
  mark();
  new MutationObserver(mark).observe(counter, { childList: true, characterData: true, subtree: true });
}
