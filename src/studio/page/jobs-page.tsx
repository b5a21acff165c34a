import { useState } from "preact/hooks";
import { formatCount } from "../../base/format.js";
import type { JobRow } from "../api.js";
import { getMessage, load } from "./api.js";
import { JobForm } from "./job-form.js";
import type { LiveState } from "./live.js";
import { linkTo } from "./route.js";
import { Command, Problem, StateBadge, useLoaded, useTimeLeft } from "./widgets.js";

const forms = { harden: "Harden a classifier", train: "Train a model", attack: "Attack a model" } as const;
const kinds = Object.keys(forms) as JobRow["kind"][];

export function JobsPage({ live, form }: { live: LiveState; form: string | null }) {
  const [kind, setKind] = useState<JobRow["kind"] | null>(kinds.find((each) => each === form) ?? null);
  return (
    <article class="jobs-page">
      <h1>Jobs</h1>
      <p class="actions">
        {kinds.map((each) => (
          <button
            key={each}
            type="button"
            class={kind === each ? "" : "quiet"}
            aria-expanded={kind === each}
            onClick={() => setKind(kind === each ? null : each)}
          >
            {forms[each]}
          </button>
        ))}
      </p>
      {kind && <JobForm key={kind} kind={kind} onStarted={() => setKind(null)} />}
      {live.jobs.length === 0 ? (
        kind === null && <p class="note">No job yet. Jobs go on when you close this page or stop the studio.</p>
      ) : (
        <ul class="jobs">
          {live.jobs.map((job) => (
            <li key={job.id}>
              <Job job={job} />
            </li>
          ))}
        </ul>
      )}
    </article>
  );
}

export function Job({ job }: { job: JobRow }) {
  const [problem, setProblem] = useState<string | null>(null);
  const { id, kind, title, state, progress, error, command, run } = job;
  const { stage, done, total, unit } = progress ?? { stage: "", done: 0, total: 0, unit: "steps" };
  const left = useTimeLeft(state === "running", done, total);
  const isDone = state === "finished";
  const change = (action: "stop" | "resume"): void => {
    setProblem(null);
    load({ path: "jobs/change", body: { id, action } }).catch((reason: unknown) => setProblem(getMessage(reason)));
  };
  return (
    <section class="example job" aria-label={title}>
      <header>
        <h2>{run === null ? title : <a href={linkTo("run", { id: run })}>{title}</a>}</h2>
        <StateBadge state={state} />
        <small>
          {kind}, started {new Date(job.started).toLocaleString("en-US")}
        </small>
      </header>
      <p class="actions">
        <progress
          {...(total > 0 && { max: total, value: isDone ? total : done })}
          aria-label={`Progress of ${title}`}
        />
        {!isDone && stage !== "" && <span>{stage}</span>}
        {!isDone && (
          <span class="count">
            {total > 0 ? `${formatCount(done)} of ${formatCount(total)} ${unit}` : "starting …"}
            {left}
          </span>
        )}
        {state === "running" && (
          <button type="button" class="danger" onClick={() => change("stop")}>
            Stop
          </button>
        )}
        {(state === "stopped" || state === "failed") && (
          <button type="button" class="quiet" onClick={() => change("resume")}>
            Resume
          </button>
        )}
      </p>
      <Problem message={problem ?? error} />
      <details>
        <summary>Command and log</summary>
        <Command text={command} />
        <Log id={id} version={`${state} ${done}`} />
      </details>
    </section>
  );
}

function Log({ id, version }: { id: string; version: string }) {
  const { last } = useLoaded<{ text: string }>({ path: "jobs/log", body: { id }, version });
  return <pre>{last?.text || "The log is empty."}</pre>;
}
