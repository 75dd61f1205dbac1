// A button that copies a block of code: statements without their prompts, and no output.
document.addEventListener("DOMContentLoaded", () => {
  const source = (text) => {
    const lines = text.replace(/\n$/, "").split("\n");
    if (!lines.some((line) => line.startsWith(">>> "))) return lines.join("\n");
    return lines
      .filter((line) => /^(>>>|\.\.\.)( |$)/.test(line))
      .map((line) => line.slice(4))
      .join("\n");
  };
  document.querySelectorAll("div.highlight > pre").forEach((block) => {
    if (/highlight-(text|none)/.test(block.parentElement.parentElement.className)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-code";
    button.textContent = "Copy";
    button.title = "Copy the code without prompts and output";
    const code = source(block.textContent);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.parentElement.appendChild(button);
  });
});
