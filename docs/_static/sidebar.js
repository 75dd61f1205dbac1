// Scroll the sidebar, which is longer than the screen, to the page that is shown.
document.addEventListener("DOMContentLoaded", () => {
  const current = document.querySelector(".groups li.current");
  const sidebar = current?.closest(".bd-sidebar-primary");
  if (sidebar) sidebar.scrollTop += current.getBoundingClientRect().top - window.innerHeight / 2;
});
