/** Prompt texts as data. */

/** The template with `{name}` replaced by the value of that name; every other brace is left as it is. */
export const fill = (template: string, values: { readonly [name: string]: string }): string =>
  template.replace(/\{(\w+)\}/g, (whole, name: string) =>
    Object.hasOwn(values, name) ? (values[name] ?? whole) : whole
  )
