import { readFileSync } from "node:fs";

/** The seconds that a process has used of the processor; 0 if it has ended. @param {number} pid */
export function readBusySeconds(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return 0;
  }
}
