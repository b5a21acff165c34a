import { useState } from "preact/hooks";
import type { JobRow } from "../api.js";
import { get, getMessage, post } from "./api.js";
import { JobForm } from "./job-form.js";
import type { LiveState } from "./live.js";
import { linkTo } from "./route.js";
import { CopyButton, Problem, StateBadge, useLoaded } from "./widgets.js";

/** Starts work, and shows what was started. */
export function JobsPage({ live }: { live: LiveState }) {
  const [kind, setKind] = useState<JobRow["kind"] | null>(null);
  return (
    <article class="jobs-page">
      <h1>Jobs</h1>
      <p class="actions">
        {(["train", "attack"] as const).map((each) => (
          <button
            key={each}
            type="button"
            class={kind === each ? "" : "quiet"}
            aria-expanded={kind === each}
            onClick={() => setKind(kind === each ? null : each)}
          >
            {each === "train" ? "Train a model" : "Attack a model"}
          </button>
        ))}
      </p>
      {kind && <JobForm key={kind} kind={kind} onStarted={() => setKind(null)} />}
      {live.jobs.length === 0 ? (
        kind === null && <p class="note">No job yet. Jobs go on when you close this page or stop the studio.</p>
      ) : (
        <ul class="jobs">
          {live.jobs.map((job) => (
            <Job key={job.id} job={job} />
          ))}
        </ul>
      )}
    </article>
  );
}

function Job({ job }: { job: JobRow }) {
  const [problem, setProblem] = useState<string | null>(null);
  const { id, kind, title, state, done, total, error, command, run } = job;
  const change = (action: "stop" | "resume"): void => {
    setProblem(null);
    post("jobs/change", { id, action }).catch((reason: unknown) => setProblem(getMessage(reason)));
  };
  return (
    <li class="card job">
      <header>
        <h2>{run === null ? title : <a href={linkTo("run", { id: run })}>{title}</a>}</h2>
        <StateBadge state={state} />
        <small>
          {kind}, started {new Date(job.started).toLocaleString("en-US")}
        </small>
      </header>
      <p class="progress">
        <progress {...(total !== null && { max: total, value: done })} aria-label={`Progress of ${title}`} />
        <span class="count">
          {total === null ? "starting …" : `${done} of ${total} ${kind === "train" ? "steps" : "texts"}`}
        </span>
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
        <div class="command">
          <pre>
            <code>{command}</code>
          </pre>
          <CopyButton text={command} />
        </div>
        <Log id={id} version={`${state} ${done}`} />
      </details>
    </li>
  );
}

function Log({ id, version }: { id: string; version: string }) {
  const { data } = useLoaded(() => get<{ text: string }>("jobs/log", { id }), [id, version]);
  return <pre>{data?.text || "The log is empty."}</pre>;
}
