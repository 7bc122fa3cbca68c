"""Fitted models: what fit returns, and everything that predictions need.

Settings are the parameters that a model was fitted with. It imports `_labels` and everything below it.
"""
