import { formatDuration } from "../../base/format.js";
import type { RunDetail } from "../api.js";
import { AttackedTexts } from "./attacked-texts.js";
import { Job } from "./jobs-page.js";
import type { LiveState } from "./live.js";
import { linkTo } from "./route.js";
import { Command, Loading, Problem, Progress, ReportPart, StateBadge, useDelayed, useLoaded } from "./widgets.js";

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
      <ReportPart html={data.results} />
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
