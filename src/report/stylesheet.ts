import { themes } from "../analysis/colors.js";

const { light, dark } = themes;

/** The stylesheet of the page: one column, in the reader's theme. */
export const stylesheet = `
:root {
  color-scheme: light dark;
  --ink: light-dark(${light.ink}, ${dark.ink});
  --paper: light-dark(${light.paper}, ${dark.paper});
  --quiet: light-dark(#56616d, #a3afbc);
  --line: light-dark(#d9dee4, #2c3642);
  --card: light-dark(#f5f7f9, #1a212b);
  --accent: light-dark(#1c5fa8, #7db7f5);
  --good: light-dark(#17683f, #6fd6a1);
  --good-soft: light-dark(#d9f2e4, #143626);
  --bad: light-dark(#a8221b, #ff9c94);
  --bad-soft: light-dark(#fde3e0, #451c19);
  --warn: light-dark(#6f4d00, #f0c869);
  --warn-soft: light-dark(#fff1cf, #3b2f10);
  --bar: light-dark(#6ea6df, #3f74ab);
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body {
  margin: 0;
  background: var(--paper);
  color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header.page, nav, main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; }
header.page { padding-top: 2.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2rem 0 .75rem; }
summary h2 { display: inline; }
details.fold { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: 1rem 0 0; margin: 2rem 0 0; }
details.fold > summary { padding: .25rem 0; }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
details h3 { font-size: 1rem; margin: 1.25rem 0 .4rem; }
h4 { font-size: .85rem; margin: 0 0 .4rem; color: var(--quiet); font-weight: 600; }
.fold > div > h3 { font-size: 1.1rem; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
.lead, .note, caption, figcaption, footer, .folder { color: var(--quiet); }
.note, figcaption, caption { font-size: .9rem; }
.sr-only {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem 1rem; z-index: 1; }
nav ul {
  display: flex;
  flex-wrap: wrap;
  gap: .25rem 1.25rem;
  list-style: none;
  padding: 0;
  margin: 1rem 0 0;
}
nav a { display: inline-block; padding: .35rem 0; }
small { display: block; font-size: .78rem; font-weight: 400; color: var(--quiet); }

table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; caption-side: top; padding-bottom: .6rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .9rem .5rem 0; border-bottom: 1px solid var(--line); }
thead th { font-size: .85rem; }
.scroll { overflow-x: auto; position: relative; }
table.comparison { width: 100%; min-width: 34rem; }
.comparison td, .comparison thead th { min-width: 7.5rem; }
.comparison td { white-space: nowrap; }
.comparison small + .bar { margin-top: .3rem; }
.bar {
  display: block;
  width: 100%;
  height: .4rem;
  border-radius: .2rem;
  fill: var(--bar);
  background: var(--line);
  print-color-adjust: exact;
  -webkit-print-color-adjust: exact;
}
.comparison .bar { width: 7rem; }
.better { color: var(--good); } .worse { color: var(--bad); }
.none { color: var(--quiet); }
.verdict { font-size: 1.15rem; max-width: 52rem; }
.verdicts { padding-left: 1.2rem; }
.warnings { list-style: none; padding: 0; }
.warnings li {
  background: var(--warn-soft);
  border-left: 4px solid var(--warn);
  padding: .6rem .9rem;
  margin: .5rem 0;
  border-radius: 0 .3rem .3rem 0;
}

.legend {
  list-style: none;
  display: flex;
  flex-wrap: wrap;
  gap: .3rem 1.2rem;
  padding: 0;
  margin: .5rem 0;
}
.charts, .figures {
  display: grid;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 1.5rem;
}
.accuracies { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem; }
.accuracies > :only-child { max-width: 44rem; }
figure { margin: 0; min-width: 0; }
.chart > div > svg, .figures img { display: block; max-width: 100%; }
.chart > div > svg { width: 100%; }
.chart > div > svg:not(.accuracy), .figures img { height: auto; }
.chart figcaption { margin-bottom: .3rem; }
.figures img { border: 1px solid var(--line); border-radius: .5rem; margin-bottom: .4rem; }

.filters { display: flex; flex-wrap: wrap; align-items: center; gap: .6rem 1.5rem; margin: 1rem 0; }
.filters[hidden], .example[hidden] { display: none; }
fieldset {
  border: 0;
  padding: 0;
  margin: 0;
  display: flex;
  flex-wrap: wrap;
  gap: .2rem 1.1rem;
}
legend { float: left; padding: .3rem 0; margin-right: 1.1rem; font-weight: 600; }
.filters label { padding: .3rem 0; max-width: 100%; }
input, select { font: inherit; accent-color: var(--accent); }
.example {
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: .6rem;
  padding: 1rem 1.1rem;
  margin: 1rem 0;
  break-inside: avoid;
}
.example > details { border: 0; padding: 0; margin: 0; }
.example h3 { display: inline; margin: 0 .5rem 0 0; overflow-wrap: anywhere; }
.example summary small { display: inline; font-size: .85rem; margin-right: .5rem; }
.text { margin: 0 0 .5rem; white-space: pre-line; overflow-wrap: anywhere; }
del {
  text-decoration: none;
  border-bottom: 2px solid var(--bad);
  background: var(--bad-soft);
  padding: 0 .1em;
  border-radius: .15em;
}
ins {
  text-decoration: none;
  font-weight: 600;
  border-bottom: 2px solid var(--good);
  background: var(--good-soft);
  padding: 0 .1em;
  border-radius: .15em;
}
del, ins, .badge { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.success ins { border-color: var(--bad); background: var(--bad-soft); }
.versions {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr));
  gap: 1rem 1.5rem;
  border-top: 1px solid var(--line);
  padding-top: .8rem;
  margin-top: .8rem;
}
.version { min-width: 0; }
.version h4 { font-size: .95rem; color: var(--ink); }
.version .note { margin: .2rem 0 0; font-size: .82rem; }
.badge {
  font-size: .78rem;
  font-weight: 600;
  padding: .1rem .5rem;
  border-radius: 1rem;
  background: var(--warn-soft);
  color: var(--warn);
}
.badge.success { background: var(--bad-soft); color: var(--bad); }
.badge.low { background: var(--line); color: inherit; }
.badge.failed { background: var(--good-soft); color: var(--good); }
.probabilities { font-size: .85rem; margin-bottom: .6rem; width: 100%; max-width: 24rem; table-layout: fixed; }
.probabilities th, .probabilities td { padding: .15rem .8rem .15rem 0; border: 0; }
.probabilities thead th { font-weight: 400; color: var(--quiet); }
.probabilities tbody th { font-weight: 400; overflow-wrap: anywhere; }
.probabilities .gold th, .probabilities .gold td { font-weight: 600; }

details { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem; margin: .6rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
details[open] > summary { margin-bottom: .5rem; }
.omitted, .omitted > summary { display: inline; border: 0; padding: 0; margin: 0; }
.omitted > summary { color: var(--quiet); font-size: .85rem; list-style: none; }
dl {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: .5rem 1.5rem;
  margin: .75rem 0 0;
}
dt { font-size: .82rem; color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
pre {
  background: var(--card);
  border-radius: .4rem;
  padding: .8rem;
  overflow-x: auto;
  font-size: .85rem;
  line-height: 1.5;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}
footer { padding-top: 2rem; padding-bottom: 3rem; font-size: .85rem; }

@media (max-width: 34rem) {
  body { font-size: 15px; }
  header.page { padding-top: 1.5rem; }
  h1 { font-size: 1.5rem; }
  legend { float: none; width: 100%; }
  table.comparison { min-width: 0; }
  .comparison thead { display: none; }
  .comparison :is(tbody, tr, th, td) { display: block; border: 0; padding: 0; }
  .comparison tr { border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; margin-bottom: .8rem; }
  .comparison tbody th { margin-bottom: .4rem; }
  .comparison td {
    display: flex;
    justify-content: space-between;
    gap: 1rem;
    border-top: 1px solid var(--line);
    padding: .4rem 0;
    white-space: normal;
  }
  .comparison td::before { content: attr(data-head); color: var(--quiet); flex: 1; }
  .comparison td > div { flex: 0 0 9rem; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@media print {
  :root { color-scheme: light; --ink: #000; --quiet: #444; --line: #bbb; --card: #fff; }
  body { font-size: 10.5pt; }
  nav, .filters, .skip { display: none; }
  header.page, main, footer { max-width: none; padding-left: 0; padding-right: 0; }
  @page { margin: 1.5cm; }
  h2, h3, h4, summary { break-after: avoid; }
  .charts { grid-template-columns: 1fr 1fr; }
  figure, tr { break-inside: avoid; }
  .scroll { overflow: visible; }
}
`;
