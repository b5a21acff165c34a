/** The page's whole script: it filters the attacked examples. Without it all of them are shown. */
export const script = `
"use strict";
for (const form of document.querySelectorAll("form.filters")) {
  const cards = [...form.parentElement.querySelectorAll("article.example")];
  const output = form.querySelector("output");
  const update = () => {
    const data = new FormData(form);
    const outcome = data.get("outcome") || "";
    const attack = data.get("attack") || "";
    let count = 0;
    for (const card of cards) {
      const fits = (!outcome || card.dataset.kinds.split(" ").includes(outcome)) && (!attack || card.dataset.attack === attack);
      card.hidden = !fits;
      if (fits) count++;
    }
    output.textContent = count + " of " + cards.length + " examples";
  };
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  update();
}
// A printed report has everything in it.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((element) => (element.open = true)));
`;
