import { render } from "preact";
import { stylesheet } from "../../report/stylesheet.js";
import { AuditsPage } from "./audits-page.js";
import { ComparePage } from "./compare-page.js";
import { JobsPage } from "./jobs-page.js";
import { useLiveState } from "./live.js";
import { PlaygroundPage } from "./playground-page.js";
import { RatePage } from "./rate-page.js";
import { linkTo, useRoute } from "./route.js";
import { RunPage } from "./run-page.js";
import { RunsPage } from "./runs-page.js";
import { Problem } from "./widgets.js";
import "./styles/theme.css";
import "./styles/controls.css";
import "./styles/runs.css";
import "./styles/run.css";
import "./styles/playground.css";

// Parts of reports look as in a report. Rules of the studio are in no layer, so they come first.
const sheet = new CSSStyleSheet();
sheet.replaceSync(`@layer report { ${stylesheet} }`);
document.adoptedStyleSheets = [sheet];

const pages = [
  ["runs", "Runs"],
  ["playground", "Playground"],
  ["jobs", "Jobs"],
  ["audits", "Audits"],
  ["rate", "Rate"],
] as const;
function App() {
  const live = useLiveState();
  const { page, query } = useRoute();
  const active = page === "run" || page === "compare" ? "runs" : page;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.querySelector<HTMLElement>("main")?.focus()}>
        Skip to content
      </button>
      <header class="top">
        <a class="brand" href={linkTo("runs")}>
          Temper <span>Studio</span>
        </a>
        <nav aria-label="Pages">
          {pages.map(([id, title]) => (
            <a key={id} href={linkTo(id)} aria-current={id === active ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        <Problem message={live.problem} />
        {page === "runs" && <RunsPage live={live} />}
        {page === "run" && <RunPage key={query.get("id")} id={query.get("id") ?? ""} live={live} />}
        {page === "jobs" && <JobsPage live={live} form={query.get("form")} />}
        {page === "audits" && <AuditsPage />}
        {page === "rate" && <RatePage live={live} />}
        {page === "playground" && <PlaygroundPage live={live} first={query.get("first") ?? ""} />}
        {page === "compare" && <ComparePage query={query} />}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
