import { join } from "node:path";
import { auditFiles, auditResultSchema } from "../audit/audit-result.js";
import { renderAuditParts } from "../audit/page.js";
import { UserError } from "../base/errors.js";
import { exists } from "../base/files.js";
import { readJsonIfExists } from "../base/read-json.js";
import { walkRunFolders } from "../runs/run-files.js";
import type { AuditRow } from "./api.js";

/** The finished audits at or below the folders of the studio. Others are skipped. */
export async function listAudits(folders: readonly string[]): Promise<AuditRow[]> {
  const rows: AuditRow[] = [];
  const hasAudit = (folder: string): Promise<boolean> => exists(join(folder, auditFiles.json));
  for (const root of folders)
    for await (const folder of walkRunFolders(root, hasAudit)) {
      const read = readJsonIfExists(join(folder, auditFiles.json), auditResultSchema, "the audit");
      const result = await read.catch((error: unknown) => {
        if (error instanceof UserError) return null;
        throw error;
      });
      if (!result) continue;
      const { lead, findings } = renderAuditParts(result);
      rows.push({ folder, model: result.subject.model, verdict: result.verdict, html: `${lead.text}${findings.text}` });
    }
  return rows;
}
