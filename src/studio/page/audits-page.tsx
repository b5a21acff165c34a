import type { AuditRow } from "../api.js";
import { EmptyState, Loading, Problem, ReportPart, useLoaded } from "./widgets.js";

export function AuditsPage() {
  const { data, problem } = useLoaded<readonly AuditRow[]>({ path: "audits" });
  if (problem !== null) return <Problem message={problem} />;
  if (!data) return <Loading what="audits" />;
  if (data.length === 0)
    return (
      <EmptyState title="No audit yet">
        <p>
          Run <code>temper audit MODEL --data FILE --out FOLDER</code>, with a folder inside one of the studio.
        </p>
      </EmptyState>
    );
  return (
    <article>
      <h1>Audits</h1>
      {data.map(({ folder, model, verdict, html }, i) => (
        <details key={folder} open={i === 0}>
          <summary>
            <strong>{model}</strong> <span class="note">{folder}</span>
            <p>{verdict}</p>
          </summary>
          <ReportPart html={html} />
        </details>
      ))}
    </article>
  );
}
