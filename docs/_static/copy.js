// A button that copies a block of code: statements or commands without their prompts, and no output.
document.addEventListener("DOMContentLoaded", () => {
  const PROMPTS = [
    { first: /^>>> /, kept: /^(>>>|\.\.\.)( |$)/, length: 4 },
    { first: /^\$ /, kept: /^[$>] /, length: 2 },
  ];
  const source = (text) => {
    const lines = text.replace(/\n$/, "").split("\n");
    const prompt = PROMPTS.find(({ first }) => lines.some((line) => first.test(line)));
    if (!prompt) return lines.join("\n");
    return lines
      .filter((line) => prompt.kept.test(line))
      .map((line) => line.slice(prompt.length))
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
    button.dataset.code = code;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.parentElement.appendChild(button);
  });
});
