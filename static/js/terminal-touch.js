// A thumb on the screen: it scrolls the terminal and never the page, goes on for a while when it lets go, and opens the text to
// select from when it rests. A button leads back to the end.

const REST_MS = 550; // how long a thumb rests to open the text
const REST_PX = 10; // and how far it may move meanwhile
const SLOWING_MS = 325; // a thumb that lets go: its speed falls to a third in this time
const SLOWEST = 0.03; // pixels in a millisecond, below which it stands
const LATELY_MS = 100; // the part of a movement that gives its speed

export function wireTouch(screen, openText) {
  const { element } = screen;
  const scroll = scroller(screen);
  let last = null; // the touch that moves
  let first = null;
  let path = []; // [time, y] lately
  let resting = null;
  let rested = false;
  let gliding = 0;

  const stay = () => clearTimeout(resting);
  const stop = () => cancelAnimationFrame(gliding);

  element.addEventListener(
    "touchstart",
    (event) => {
      stay();
      stop();
      rested = false;
      last = first = event.touches.length === 1 ? event.touches[0] : null;
      path = [];
      if (!last) return;
      resting = setTimeout(() => {
        rested = true;
        last = null;
        openText();
      }, REST_MS);
    },
    { passive: true },
  );
  element.addEventListener(
    "touchmove",
    (event) => {
      if (rested) return event.preventDefault();
      if (!last || event.touches.length !== 1) return stay();
      const touch = event.touches[0];
      if (Math.hypot(touch.clientX - first.clientX, touch.clientY - first.clientY) > REST_PX) stay();
      const pixels = last.clientY - touch.clientY;
      last = touch;
      path.push([event.timeStamp, touch.clientY]);
      if (!pixels) return;
      event.preventDefault();
      scroll(pixels, touch);
    },
    { passive: false },
  );
  element.addEventListener("touchend", (event) => {
    stay();
    if (rested) event.preventDefault(); // else it becomes a click, and the keyboard opens behind the text
    else if (last) glide(speed(path, event.timeStamp));
    last = null;
  });
  element.addEventListener("touchcancel", () => {
    stay();
    last = null;
  });
  element.addEventListener("contextmenu", (event) => event.pointerType === "touch" && event.preventDefault());

  function glide(pace) {
    const program = screen.terminal.buffer.active.type === "alternate"; // its keys are sent for movements that a thumb makes
    if (program || !pace || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    let before = performance.now();
    const step = (now) => {
      const passed = Math.max(0, now - before);
      before = now;
      scroll(pace * passed);
      pace *= Math.exp(-passed / SLOWING_MS);
      if (Math.abs(pace) > SLOWEST) gliding = requestAnimationFrame(step);
    };
    gliding = requestAnimationFrame(step);
  }

  wireEnd(screen, stop);
}

function speed(path, now) {
  const lately = path.filter(([time]) => now - time < LATELY_MS);
  if (lately.length < 2) return 0;
  const [[from, top], [to, bottom]] = [lately[0], lately.at(-1)];
  return to > from ? (top - bottom) / (to - from) : 0;
}

// `scroll(pixels, point)`: first within a terminal that is larger than its place, then through what scrolled away. On the
// alternate screen a wheel is what the emulator knows: it makes of it what the program wants, keys or reports of a mouse.
function scroller({ terminal, element }) {
  let rest = 0; // pixels of less than a line
  return (pixels, point) => {
    if (!element.hasAttribute("data-fits")) {
      const before = element.scrollTop;
      element.scrollTop += pixels;
      pixels -= element.scrollTop - before;
    }
    const board = terminal.element.querySelector(".xterm-screen");
    const height = board.clientHeight / terminal.rows;
    rest += pixels;
    const lines = Math.trunc(rest / height);
    rest -= lines * height;
    if (!lines) return;
    if (terminal.buffer.active.type === "normal") return terminal.scrollLines(lines);
    const { clientX, clientY } = point;
    for (let line = 0; line < Math.abs(lines); line += 1) {
      const wheel = { deltaY: Math.sign(lines), deltaMode: WheelEvent.DOM_DELTA_LINE, clientX, clientY, bubbles: true, cancelable: true };
      board.dispatchEvent(new WheelEvent("wheel", wheel));
    }
  };
}

// The button, and the part of a terminal that is larger than its place: it follows the program's cursor until somebody looks
// elsewhere.
function wireEnd({ terminal, element }, stop) {
  const button = document.getElementById("terminal-end");
  let follows = true;
  let set = 0; // where this file put it
  const fits = () => element.hasAttribute("data-fits");
  const cursor = () => {
    const height = terminal.element.offsetHeight / terminal.rows;
    const end = Math.ceil((terminal.buffer.active.cursorY + 1.5) * height) - element.clientHeight;
    return Math.max(0, Math.min(end, element.scrollHeight - element.clientHeight));
  };
  const follow = () => {
    if (!fits() && follows) element.scrollTop = set = cursor();
    const { viewportY, baseY } = terminal.buffer.active;
    button.hidden = viewportY >= baseY && (fits() || follows);
  };
  terminal.onRender(follow);
  terminal.onScroll(follow);
  terminal.onResize(follow);
  new ResizeObserver(follow).observe(element);
  element.addEventListener("scroll", () => {
    if (Math.abs(element.scrollTop - set) > 2) follows = element.scrollTop > cursor() - 4;
    follow();
  });
  for (const event of ["pointerdown", "mousedown"]) button.addEventListener(event, (press) => press.preventDefault());
  button.addEventListener("click", () => {
    stop();
    const focused = document.activeElement === button;
    follows = true;
    terminal.scrollToBottom();
    follow();
    if (focused) terminal.focus();
  });
}
