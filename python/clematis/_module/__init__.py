"""What stands behind `clematis.Module`: how variables are found, built, routed and watched."""
