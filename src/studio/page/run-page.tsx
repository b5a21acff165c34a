import { capitalize, formatCount, formatDuration } from "../../base/format.js";
import { describeMetric, formatWithUnit, isAttackMetric } from "../../evaluation/metric-table.js";
import { worstCaseId } from "../../evaluation/worst-case.js";
import type { RunDetail } from "../api.js";
import { AttackedTexts } from "./attacked-texts.js";
import { Job } from "./jobs-page.js";
import type { LiveState } from "./live.js";
import { linkTo } from "./route.js";
import {
  Command,
  formatCell,
  Loading,
  Problem,
  Progress,
  ReportPart,
  StateBadge,
  Tile,
  useDelayed,
  useLoaded,
} from "./widgets.js";

export function RunPage({ id, live }: { id: string; live: LiveState }) {
  const row = live.rows.get(id);
  const version = useDelayed(row, 300);
  const { last: data, problem } = useLoaded<RunDetail>({ path: "run", body: { id }, version });
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
      <ReportPart html={data.training} />
      <AttackedTexts id={id} journals={data.journals} table={data.attackTable} folder={shown.folder} />
      <section aria-labelledby="commands">
        <h2 id="commands">Commands</h2>
        {data.commands.map((command) => (
          <Command key={command} text={command} />
        ))}
      </section>
      <ReportPart html={data.background} />
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
        {main.map(([id, cell]) => {
          const { interval } = formatCell(cell);
          const examples = cell.examples === null ? "" : ` of ${formatCount(cell.examples)} texts`;
          return (
            <Tile
              key={id}
              title={capitalize(describeMetric(id, row.attackedLabel).title)}
              value={formatWithUnit(id, cell.value)}
              note={`${interval && `95% CI ${interval}`}${examples}`}
              fraction={row.degeneracy === null ? cell.value : null}
            />
          );
        })}
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

/** The numbers that judge a run come first: all attacks, each attack, before them, the test split. */
function getRank(id: string): number {
  const order = [worstCaseId, "", "clean", "accuracy"];
  return isAttackMetric(id) ? 1 : order.includes(id) ? order.indexOf(id) : minorRank;
}
