// A dashboard as JSON: Grafana's own types, where panels are told apart by their kind and their options are not left open.

import type { Dashboard, Panel } from '@grafana/schema';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen.d.ts';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen.d.ts';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen.d.ts';

// JSON has the values of an enumeration, not its members; and Grafana fills in what is left out.
type Json<T> = T extends string
  ? `${T}`
  : T extends Array<infer Element>
    ? Array<Json<Element>>
    : T extends object
      ? { [Key in keyof T]?: Json<T[Key]> }
      : T;

type Defaults = NonNullable<NonNullable<Panel['fieldConfig']>['defaults']>;

type Of<Kind extends string, Options, Custom> = Omit<Json<Panel>, 'type' | 'options' | 'fieldConfig'> & {
  type: Kind;
  gridPos: Required<Panel>['gridPos'];
  options: Json<Options>;
  fieldConfig: {
    defaults: Omit<Json<Defaults>, 'custom'> & { custom?: Json<Custom> };
    overrides: NonNullable<Json<NonNullable<Panel['fieldConfig']>['overrides']>>;
  };
};

export type DashboardJson = Omit<Json<Dashboard>, 'panels'> & {
  uid: string;
  schemaVersion: number;
  panels: Array<
    | Of<'stat', stat.Options, never>
    | Of<'table', table.Options, table.FieldConfig>
    | Of<'timeseries', timeseries.Options, timeseries.FieldConfig>
  >;
};
