import { formatCount, formatDuration } from "../../base/format.js";
import { describeMetric, formatWithUnit, isAttackMetric } from "../../evaluation/metric-table.js";
import { worstCaseId } from "../../evaluation/worst-case.js";
import type { RunDetail, Setting } from "../api.js";
import { AttackedTexts } from "./attacked-texts.js";
import { Chart } from "./chart.js";
import { Job } from "./jobs-page.js";
import type { LiveState } from "./live.js";
import { ReportPart } from "./report-part.js";
import { linkTo } from "./route.js";
import {
  Bar,
  CopyButton,
  formatCell,
  Loading,
  Problem,
  Progress,
  StateBadge,
  useDelayed,
  useLoaded,
} from "./widgets.js";

/** Everything about one run. It is loaded again while the run changes. */
export function RunPage({ id, live, theme }: { id: string; live: LiveState; theme: string }) {
  const row = live.rows.get(id);
  const version = useDelayed(row, 300);
  const { last: data, problem } = useLoaded<RunDetail>({ path: "run", query: { id }, version });
  if (!data) return problem === null ? <Loading what="the run" /> : <Problem message={problem} />;
  const shown = row ?? data.row;
  const job = live.jobs.find(({ run, state }) => run === id && state !== "finished");
  return (
    <article class="run-page">
      <header class="page">
        <p class="crumbs">
          <a href={linkTo("runs")}>Runs</a>
        </p>
        <h1>{shown.name}</h1>
        <p class="facts-line">
          <StateBadge state={shown.state} /> <b>{shown.task}</b> <span>{shown.methodLabel}</span>{" "}
          <span>seed {shown.seed}</span> <span>{shown.model}</span>
          {shown.started && (
            <span>
              {shown.started.slice(0, 10)}, {formatDuration(1000 * shown.seconds)} of training
            </span>
          )}
          {shown.state !== "finished" && <Progress row={shown} />}
          {shown.hasModel && (
            <a class="button quiet" href={linkTo("playground", { first: shown.id })}>
              Open in the playground
            </a>
          )}
        </p>
        <Problem message={problem} />
        {data.warnings.map((warning) => (
          <p class="warning" key={warning}>
            {warning}
          </p>
        ))}
      </header>
      {job ? (
        <Job job={job} />
      ) : (
        shown.state === "running" && (
          <p class="note">This run was started in a terminal. Press Ctrl-C there to stop it; its log is there, too.</p>
        )
      )}
      <Metrics detail={{ ...data, row: shown }} />
      {data.bounds !== null && (
        <section aria-labelledby="bounds">
          <h2 id="bounds">Certificates</h2>
          <ReportPart html={data.bounds} />
        </section>
      )}
      <section aria-labelledby="training">
        <h2 id="training">Training</h2>
        {data.charts.length === 0 ? (
          <p class="note">No optimizer step yet.</p>
        ) : (
          <div class="charts">
            {data.charts.map((chart) => (
              <Chart key={chart.id} chart={chart} theme={theme} />
            ))}
          </div>
        )}
      </section>
      <AttackedTexts
        id={id}
        labels={data.labels}
        journals={data.journals}
        table={data.attackTable}
        folder={shown.folder}
      />
      {data.figures.length > 0 && (
        <section aria-labelledby="figures">
          <h2 id="figures">Figures</h2>
          <div class="figures">
            {data.figures.map(({ title, summary, source }) => (
              <figure key={title}>
                <img src={source} alt={summary ?? title} />
                <figcaption>
                  <b>{title}</b> {summary}
                </figcaption>
              </figure>
            ))}
          </div>
        </section>
      )}
      <Settings settings={data.settings} />
      <section aria-labelledby="commands">
        <h2 id="commands">Commands</h2>
        {data.commands.map((command) => (
          <div class="command" key={command}>
            <pre>
              <code>{command}</code>
            </pre>
            <CopyButton text={command} />
          </div>
        ))}
        <dl class="facts">
          {data.facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </section>
    </article>
  );
}

function Metrics({ detail: { row, journals } }: { detail: RunDetail }) {
  const entries = Object.entries(row.metrics)
    .filter(([id]) => id !== worstCaseId || journals.length > 1)
    .sort(([a], [b]) => getRank(a) - getRank(b));
  if (entries.length === 0)
    return (
      <p class="note">
        {row.bestValidation === null
          ? "Nothing has been measured yet."
          : `Best validation value so far: ${formatWithUnit(row.metricForBestModel ?? "accuracy", row.bestValidation)} (${row.metricForBestModel}).`}
      </p>
    );
  const main = entries.filter(([id]) => getRank(id) < minorRank);
  const others = entries.filter(([id]) => getRank(id) >= minorRank);
  return (
    <>
      <dl class="tiles">
        {main.map(([id, cell]) => (
          <div key={id}>
            <dt>{describeMetric(id, row.attackedLabel).title}</dt>
            <dd>
              <b>{formatWithUnit(id, cell.value)}</b>
              <small>
                {formatCell(cell).interval && `95% CI ${formatCell(cell).interval}`}
                {cell.examples !== null && ` of ${formatCount(cell.examples)} texts`}
              </small>
              {row.degeneracy === null && <Bar fraction={cell.value} />}
            </dd>
          </div>
        ))}
      </dl>
      {others.length > 0 && (
        <dl class="minor">
          {others.map(([id, { value }]) => (
            <div key={id}>
              <dt>{describeMetric(id).title}</dt> <dd>{formatWithUnit(id, value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

const minorRank = 4;

/** What a run is judged by comes first: all attacks, each attack, before them, the test split. */
function getRank(id: string): number {
  const order = [worstCaseId, "", "clean", "accuracy"];
  return isAttackMetric(id) ? 1 : order.includes(id) ? order.indexOf(id) : minorRank;
}

function Settings({ settings }: { settings: readonly Setting[] }) {
  const changed = settings.filter(({ changedFrom }) => changedFrom !== null);
  const others = settings.filter(({ changedFrom }) => changedFrom === null);
  return (
    <section aria-labelledby="settings">
      <h2 id="settings">Settings</h2>
      <table class="settings">
        <caption>Settings that differ from the defaults</caption>
        <thead>
          <tr>
            <th scope="col">setting</th>
            <th scope="col">value</th>
            <th scope="col">default</th>
          </tr>
        </thead>
        <tbody>
          {changed.map(({ key, value, changedFrom }) => (
            <tr key={key}>
              <th scope="row">{key}</th>
              <td>{value}</td>
              <td class="none">{changedFrom}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <details>
        <summary>{others.length} settings with their defaults</summary>
        <table class="settings">
          <tbody>
            {others.map(({ key, value }) => (
              <tr key={key}>
                <th scope="row">{key}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}
