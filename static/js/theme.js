// The theme changes at once; without this file the same form is sent and the page comes back in it.

document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!event.target.matches("[data-theme-switch]") || button?.name !== "theme") return;
  event.preventDefault();
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `handrail-theme=${button.value}; Path=/; Max-Age=${button.value ? 31536000 : 0}; SameSite=Lax${secure}`;
  if (button.value) document.documentElement.dataset.theme = button.value;
  else delete document.documentElement.dataset.theme;
  for (const other of event.target.elements) if (other.name === "theme") other.setAttribute("aria-pressed", String(other === button));
});
