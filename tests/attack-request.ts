import type { z } from "zod";
import { type AttackReport, attack } from "../src/actions/attack/attack.js";
import {
  type AttackCallbacks,
  type AttackRequest,
  type attackGroups,
  attackRequestSchema,
} from "../src/actions/attack/attack-request.js";
import { groupOptions } from "../src/cli/options.js";

type Groups = typeof attackGroups;
/** The keys of an attack request in one level, as flags are. */
export type FlatRequest = Omit<AttackRequest, keyof Groups> &
  Omit<z.input<Groups["data"]>, "path"> & { readonly data?: string } & z.input<Groups["sample"]> &
  z.input<Groups["constraints"]> &
  z.input<Groups["resources"]> &
  z.input<Groups["outputs"]> &
  z.input<Groups["guard"]> &
  z.input<Groups["runtime"]>;

/** The request of flat keys. */
export function toRequest({ data, ...flat }: FlatRequest): AttackRequest {
  return groupOptions(attackRequestSchema, data === undefined ? flat : { ...flat, path: data });
}

/** Attacks with flat keys, which are shorter to write. */
export function attackFlat(flat: FlatRequest, callbacks?: AttackCallbacks): Promise<AttackReport> {
  return attack(toRequest(flat), callbacks);
}
