// What pages of the documentation need beyond Markdown: figures of the theme that the reader has chosen, which may not
// be that of the system, and the interactive figure in the page, besides the link to it.

const SYSTEM = "(prefers-color-scheme: dark)";

function useTheme() {
  const media = { light: "not all", dark: "all" }[document.body.dataset.theme] ?? SYSTEM;
  for (const source of document.querySelectorAll("picture > source")) source.media = media;
}

function embed(link) {
  const frame = document.createElement("iframe");
  frame.src = link.href;
  frame.title = "Interactive figure";
  frame.className = "interactive";
  frame.addEventListener("load", () => {
    const page = frame.contentDocument;
    if (!page) return; // pages opened as files may not look into each other
    const fit = () => (frame.style.height = `${page.documentElement.scrollHeight}px`);
    new ResizeObserver(fit).observe(page.body);
  });
  link.after(frame);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll('a[href$="/explorer.html"]')) embed(link);
  useTheme();
  new MutationObserver(useTheme).observe(document.body, { attributeFilter: ["data-theme"] });
});
